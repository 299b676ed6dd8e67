"""Keys that sign: Ed25519, and ECDSA on the curves P-256, P-384 and P-521, as OpenSSH and PEM files hold them.

A key has one id in every form that it is written in: the fingerprint that `ssh-keygen -l` prints. ECDSA is with the
hash of the curve's size and, where OpenSSL can, deterministic (RFC 6979), so that signing again gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from modelctl.admission.dsse import PAYLOAD_TYPE, Envelope, pre_authentication_encoding
from modelctl.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        ECDSA,
        EllipticCurve,
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    PrivateKey: TypeAlias = Ed25519PrivateKey | EllipticCurvePrivateKey
    PublicKey: TypeAlias = Ed25519PublicKey | EllipticCurvePublicKey

NEW_KEY = "ssh-keygen -t ecdsa -N '' -f KEY, then set signing.key (MODELCTL_SIGNING_KEY) to KEY"
PASSPHRASE = "MODELCTL_SIGNING_PASSPHRASE"  # noqa: S105  # nosec B105 - the name of a variable
_CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}
_SSH_BEGIN, _RFC1421 = b"BEGIN OPENSSH PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED"


@dataclass(frozen=True)
class KeyVerifier:
    """Knows the signatures of one public key."""

    key: PublicKey

    @cached_property
    def key_id(self) -> str:
        """The key's id."""
        return key_id(self.key)

    @property
    def name(self) -> str:
        """See `dsse.Verifier`."""
        return self.key_id

    @property
    def kind(self) -> str:
        """See `dsse.Verifier`."""
        return key_kind(self.key)

    def why_not(self, envelope: Envelope) -> str | None:
        """See `dsse.Verifier`: of a key there is no more to say."""

    def signer_of(self, envelope: Envelope) -> str | None:
        """See `dsse.Verifier`."""
        signed = pre_authentication_encoding(envelope.payload_type, envelope.payload)
        return self.key_id if any(self.verifies(signature, signed) for _, signature in envelope.signatures) else None

    def verifies(self, signature: bytes, signed: bytes) -> bool:
        """Whether the key made this signature over exactly these bytes."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            if isinstance(self.key, Ed25519PublicKey):
                self.key.verify(signature, signed)
            else:
                self.key.verify(signature, signed, _ecdsa(self.key.curve))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class KeySigner:
    """Signs with one private key."""

    key: PrivateKey

    @property
    def public(self) -> PublicKey:
        """The public half."""
        return self.key.public_key()

    @cached_property
    def key_id(self) -> str:
        """See `dsse.Signer`."""
        return key_id(self.public)

    @property
    def name(self) -> str:
        """See `dsse.Signer`."""
        return self.key_id

    @property
    def to_allow(self) -> str:
        """See `dsse.Signer`."""
        return f"add to policies/allowed_signers the line: NAME {public_line(self.public)}"

    def seal(self, payload: bytes) -> Envelope:
        """See `dsse.Signer`."""
        signature = self.sign(pre_authentication_encoding(PAYLOAD_TYPE, payload))
        return Envelope(payload=payload, payload_type=PAYLOAD_TYPE, signatures=((self.key_id, signature),))

    def sign(self, content: bytes) -> bytes:
        """The signature over bytes; of ECDSA its DER form."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if isinstance(self.key, Ed25519PrivateKey):
            return self.key.sign(content)
        return self.key.sign(content, _ecdsa(self.key.curve, signing=True))


def load_signing_key(path: Path | None, passphrase: str | None = None, *, setting: str = "signing.key") -> PrivateKey:
    """The private key of a file. Raises `InputError`: not set, missing, locked, of a kind that does not sign here."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    remedy = NEW_KEY if setting == "signing.key" else new_key(setting.partition(".")[2])
    if path is None:
        raise InputError("no signing key is set: a publication is signed", remedy=remedy)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{setting}: {path}: {error.strerror}", remedy=remedy) from error
    if b"BEGIN PUBLIC KEY" in content or content.startswith((b"ssh-", b"ecdsa-", b"sk-")):
        raise InputError(f"{setting}: {path} is a public key, wanted the private one", remedy="name the other file")
    load = load_ssh_private_key if _SSH_BEGIN in content else load_pem_private_key
    secret = passphrase.encode() if passphrase is not None and is_locked(content) else None
    try:
        key = load(content, password=secret)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if is_locked(content):
            what = "has another passphrase than" if secret is not None else "has a passphrase, which is read from"
            raise InputError(f"{setting}: {path} {what} {PASSPHRASE}", remedy=f"export {PASSPHRASE}=…") from error
        raise InputError(f"{setting}: {path} is no private key that can be read", remedy=remedy) from error
    if isinstance(key, Ed25519PrivateKey) or (isinstance(key, EllipticCurvePrivateKey) and key.curve.name in _CURVES):
        return key
    raise InputError(f"{setting}: {path} is neither Ed25519 nor ECDSA on {', '.join(_CURVES.values())}", remedy=remedy)


def is_locked(content: bytes) -> bool:
    """Whether a private key's file asks for a passphrase."""
    if _SSH_BEGIN in content:
        body = b"".join(line for line in content.splitlines() if not line.startswith(b"-----"))
        try:  # "openssh-key-v1\0", then the cipher's name with its length
            return not base64.b64decode(body)[15:].startswith(b"\0\0\0\x04none")
        except ValueError:
            return False
    return b"BEGIN ENCRYPTED PRIVATE KEY" in content or _RFC1421 in content


def as_public_key(key: object) -> PublicKey | None:
    """A key of the library, when it is one that may sign here."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if isinstance(key, Ed25519PublicKey) or (isinstance(key, EllipticCurvePublicKey) and key.curve.name in _CURVES):
        return key
    return None


def key_id(key: PublicKey) -> str:
    """The fingerprint that `ssh-keygen -l` prints: `SHA256:` and the unpadded base64 of the sha256 of the key as
    OpenSSH encodes it. A PEM file of the same key has the same one."""
    blob = base64.b64decode(public_line(key).split(" ")[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def public_line(key: PublicKey) -> str:
    """The key as OpenSSH writes it: `ssh-ed25519 AAAA…`, `ecdsa-sha2-nistp256 AAAA…`."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def key_kind(key: PublicKey) -> str:
    """`Ed25519` or `ECDSA P-256`."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return "Ed25519" if isinstance(key, Ed25519PublicKey) else f"ECDSA {_CURVES[key.curve.name]}"


def is_ecdsa(key: PublicKey) -> bool:
    """Whether it is a key on one of the curves."""
    return key_kind(key) != "Ed25519"


def _ecdsa(curve: EllipticCurve, *, signing: bool = False) -> ECDSA:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512

    algorithm = {"secp256r1": SHA256(), "secp384r1": SHA384(), "secp521r1": SHA512()}[curve.name]
    if signing:
        try:
            return ECDSA(algorithm, deterministic_signing=True)
        except UnsupportedAlgorithm:  # an OpenSSL before 3.2
            pass
    return ECDSA(algorithm)


def new_key(name: str) -> str:
    """The commands that make the ECDSA key of a setting."""
    return f"ssh-keygen -t ecdsa -N '' -f KEY, then set signing.{name} (MODELCTL_SIGNING_{name.upper()}) to KEY"
