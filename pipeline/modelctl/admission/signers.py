"""Who may sign: `policies/allowed_signers`, in the format that OpenSSH and git read (ssh-keygen(1), ALLOWED SIGNERS).

One line each: principals, perhaps options, key type, key. Attestations are signed with Ed25519, so other keys (they may
sign commits) are no signers here. A restriction that is not understood is an error, since ignoring it would allow more
than was written.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelctl.documents import read_text
from modelctl.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

SIGNERS_FILE = Path("policies", "allowed_signers")
NAMESPACE = "modelctl"
_KEY_TYPE = re.compile(r"^(ssh-|ecdsa-|sk-)[\w@.-]+$")
_FIELD = re.compile(r'(?:[^\s"]|"[^"]*")+')


@dataclass(frozen=True, kw_only=True)
class AllowedSigner:
    """A person or a machine, and the key they may sign with."""

    principals: tuple[str, ...]
    key: Ed25519PublicKey


def load_allowed_signers(path: Path) -> tuple[AllowedSigner, ...]:
    """The Ed25519 signers of a file. Raises `InputError` with file and line."""
    return parse_allowed_signers(read_text(path), origin=str(path))


def parse_allowed_signers(text: str, *, origin: str) -> tuple[AllowedSigner, ...]:
    """The same of a text; `origin` names its file in errors."""
    signers = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            signer = _signer(line, origin=f"{origin}:{number}")
            if signer is not None:
                signers.append(signer)
    return tuple(signers)


def _signer(line: str, *, origin: str) -> AllowedSigner | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    principals, *rest = _FIELD.findall(line)
    options = rest.pop(0) if rest and not _KEY_TYPE.match(rest[0]) else ""
    if len(rest) < 2 or not _KEY_TYPE.match(rest[0]):
        raise InputError(f"{origin}: wanted 'PRINCIPALS KEYTYPE KEY'", remedy="see ssh-keygen(1), ALLOWED SIGNERS")
    if options and not _applies(options, origin=origin):
        return None
    if rest[0] != "ssh-ed25519":
        return None
    try:
        key = load_ssh_public_key(f"{rest[0]} {rest[1]}".encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{origin}: the key can't be read: {error}", remedy="paste the .pub file's line") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{origin}: says {rest[0]}, but the key is of another type")
    return AllowedSigner(principals=tuple(principals.strip('"').split(",")), key=key)


def _applies(options: str, *, origin: str) -> bool:
    """Whether a line with these options is for attestations."""
    matched = re.fullmatch(r'namespaces="([^"]*)"', options, flags=re.IGNORECASE)
    if matched is None:
        raise InputError(
            f'{origin}: the options {options} can\'t be honoured; only namespaces="…" is',
            remedy="put keys with such options into another file",
        )
    return any(fnmatch.fnmatchcase(NAMESPACE, pattern.strip()) for pattern in matched[1].split(","))
