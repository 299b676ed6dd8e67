"""Who may sign: `policies/allowed_signers`, in the format that OpenSSH and git read (ssh-keygen(1), ALLOWED SIGNERS),
PEM public keys, `policies/signers/NAME.pem`, and keyless ones, `policies/signers/NAME.yaml`; NAME is the signer's.

Ed25519 and ECDSA keys sign attestations; keys of other kinds (they may sign commits) are no signers here. A restriction
that is not understood is an error, since ignoring it would allow more than was written.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from modelctl.admission.dsse import Verifier
from modelctl.admission.keys import KeyVerifier, as_public_key
from modelctl.admission.names import SIGNERS_FILE, SIGNERS_FOLDER
from modelctl.documents import read_text
from modelctl.errors import InputError

PEM, KEYLESS, TRUSTED_ROOT = ".pem", ".yaml", ".json"
NAMESPACE = "modelctl"
_KEY_TYPE = re.compile(r"^(ssh-|ecdsa-|sk-)[\w@.-]+$")
_FIELD = re.compile(r'(?:[^\s"]|"[^"]*")+')
SIGNING_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
_PEM_KEY = re.compile(r"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)


class SignerFiles(Protocol):
    """Texts of a registry repository, in the working tree or at a commit (`policy_files.RuleFiles` are such)."""

    def read(self, path: str) -> str | None:
        """The text of a file, or None when there is none."""

    def listing(self, folder: str) -> Sequence[str]:
        """The paths of the files right in a folder."""

    def place(self, path: str) -> str:
        """How errors name a file."""


@dataclass(frozen=True, kw_only=True)
class AllowedSigner:
    """A person or a machine, and what knows their signatures."""

    principals: tuple[str, ...]
    verifier: Verifier
    key_id: str | None
    """Of the key; None where the signer has none of their own (keyless)."""


def repository_signers(files: SignerFiles) -> tuple[AllowedSigner, ...] | None:
    """The signers that a registry repository lists; None when it has no list. Raises `InputError` with its place."""
    path = SIGNERS_FILE.as_posix()
    text = files.read(path)
    listed = files.listing(SIGNERS_FOLDER)
    keys = [name for name in listed if name.endswith(PEM)]
    keyless = [name for name in listed if name.endswith(KEYLESS)]
    if text is None and not keys and not keyless:
        return None
    found = list(parse_allowed_signers(text or "", origin=files.place(path)))
    for name in keys:
        principal = PurePosixPath(name).name.removesuffix(PEM)
        found += parse_public_keys(files.read(name) or "", origin=files.place(name), principal=principal)
    for name in keyless:  # after the keys, since verifying them takes a library and perhaps a network
        found.append(
            _keyless(
                name,
                files.read(name) or "",
                origin=files.place(name),
                read=lambda other: files.read(f"{SIGNERS_FOLDER}/{other}"),
                place=lambda other: files.place(f"{SIGNERS_FOLDER}/{other}"),
            )
        )
    return tuple(found)


def load_allowed_signers(path: Path) -> tuple[AllowedSigner, ...]:
    """The signers of one file: a list of OpenSSH's, PEM public keys, or a keyless one (`.yaml`). Raises `InputError`
    with file and line."""
    text = read_text(path)
    if path.suffix == KEYLESS:

        def read(name: str) -> str | None:
            other = path.with_name(name)
            return read_text(other) if other.is_file() else None

        origin = str(path)
        return (_keyless(path.name, text, origin=origin, read=read, place=lambda name: str(path.with_name(name))),)
    if text.lstrip().startswith("-----BEGIN"):
        return tuple(parse_public_keys(text, origin=str(path), principal=path.name.removesuffix(PEM)))
    return parse_allowed_signers(text, origin=str(path))


def parse_allowed_signers(text: str, *, origin: str) -> tuple[AllowedSigner, ...]:
    """The signers of a list's text; `origin` names its file in errors."""
    signers = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            signer = _signer(line, origin=f"{origin}:{number}")
            if signer is not None:
                signers.append(signer)
    return tuple(signers)


def parse_public_keys(text: str, *, origin: str, principal: str) -> Iterator[AllowedSigner]:
    """The PEM public keys of a text, all of one signer. Raises `InputError` for anything else."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    remedy = "openssl pkey -in KEY -pubout writes a key's public half"
    if "PRIVATE KEY" in text:
        raise InputError(f"{origin}: a private key, which must never be here", remedy=remedy)
    blocks = _PEM_KEY.findall(text)
    if not blocks or _PEM_KEY.sub("", text).strip():
        raise InputError(f"{origin}: wanted PEM public keys and nothing else", remedy=remedy)
    for block in blocks:
        try:
            key = as_public_key(load_pem_public_key(block.encode()))
        except (ValueError, UnsupportedAlgorithm) as error:
            raise InputError(f"{origin}: the key can't be read: {error}", remedy=remedy) from error
        if key is None:
            raise InputError(f"{origin}: neither Ed25519 nor ECDSA on P-256, P-384 or P-521", remedy=remedy)
        verifier = KeyVerifier(key)
        yield AllowedSigner(principals=(principal,), verifier=verifier, key_id=verifier.key_id)


def _keyless(
    name: str, text: str, *, origin: str, read: Callable[[str], str | None], place: Callable[[str], str]
) -> AllowedSigner:
    from modelctl.admission.keyless import parse_keyless

    verifier = parse_keyless(text, origin=origin, beside=read, place=place)
    return AllowedSigner(principals=(PurePosixPath(name).stem,), verifier=verifier, key_id=None)


def _signer(line: str, *, origin: str) -> AllowedSigner | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    principals, *rest = _FIELD.findall(line)
    options = rest.pop(0) if rest and not _KEY_TYPE.match(rest[0]) else ""
    if len(rest) < 2 or not _KEY_TYPE.match(rest[0]):
        raise InputError(f"{origin}: wanted 'PRINCIPALS KEYTYPE KEY'", remedy="see ssh-keygen(1), ALLOWED SIGNERS")
    if options and not _applies(options, origin=origin):
        return None
    if rest[0] not in SIGNING_TYPES:
        return None
    try:
        loaded = load_ssh_public_key(f"{rest[0]} {rest[1]}".encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{origin}: the key can't be read: {error}", remedy="paste the .pub file's line") from error
    key = as_public_key(loaded)
    if key is None:
        raise InputError(f"{origin}: says {rest[0]}, but the key is of another type")
    verifier = KeyVerifier(key)
    return AllowedSigner(principals=tuple(principals.strip('"').split(",")), verifier=verifier, key_id=verifier.key_id)


def _applies(options: str, *, origin: str) -> bool:
    """Whether a line with these options is for attestations."""
    matched = re.fullmatch(r'namespaces="([^"]*)"', options, flags=re.IGNORECASE)
    if matched is None:
        raise InputError(
            f'{origin}: the options {options} can\'t be honoured; only namespaces="…" is',
            remedy="put keys with such options into another file",
        )
    return any(fnmatch.fnmatchcase(NAMESPACE, pattern.strip()) for pattern in matched[1].split(","))
