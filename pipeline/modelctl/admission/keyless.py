"""Keyless signers: sigstore's certificates, which live for minutes and name whom an OIDC issuer vouched for.

`policies/signers/NAME.yaml` allows one identity of one issuer. A signature is the signer's when sigstore's own library
verifies the bundle: certificate, signed certificate timestamp, transparency log and envelope, against a trusted root
that is in git beside the file, else against the public one, which is fetched and refreshed over the network.
"""

from __future__ import annotations

import base64
import json
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StringConstraints

from modelctl.admission.dsse import Envelope
from modelctl.admission.keys import as_public_key, key_id
from modelctl.documents import Document, parse_yaml, validate
from modelctl.errors import CannotDecideError, InputError

if TYPE_CHECKING:
    from sigstore.models import TrustedRoot
    from sigstore.verify import Verifier as SigstoreVerifier

INSTALL = "pip install 'modelctl[sigstore]'"
_ROOT = r"^[A-Za-z0-9][A-Za-z0-9._-]*\.json$"


class KeylessSpec(Document):
    """Whose signatures count."""

    identity: Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
    """As the certificate names it, exactly: an e-mail address, or the workflow with its branch
    (`https://github.com/ORG/REPOSITORY/.github/workflows/publish.yml@refs/heads/main`)."""
    issuer: Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]
    """The OIDC issuer that vouches for the identity, exactly (`https://token.actions.githubusercontent.com`)."""
    trusted_root: Annotated[str, StringConstraints(pattern=_ROOT)] | None = None
    """A file beside this one: the trusted root or client trust configuration of a sigstore, as JSON; none: the public
    sigstore's, fetched and refreshed over the network at each run."""


class KeylessFile(Document):
    """A whole `policies/signers/NAME.yaml`."""

    api_version: Annotated[Literal["modelctl.dev/v1"], Field(alias="apiVersion")]
    kind: Literal["KeylessSigner"]
    spec: KeylessSpec


@dataclass(frozen=True, kw_only=True)
class KeylessVerifier:
    """Knows the signatures of one identity of one issuer."""

    identity: str
    issuer: str
    root: str | None
    """The trusted root's text; None: the public sigstore's."""
    place: str
    """Names the trusted root's file in errors."""

    @property
    def name(self) -> str:
        """See `dsse.Verifier`."""
        return keyless_name(self.identity, self.issuer)

    @property
    def kind(self) -> str:
        """See `dsse.Verifier`."""
        return f"sigstore identity {self.name}, key"

    def signer_of(self, envelope: Envelope) -> str | None:
        """See `dsse.Verifier`. Raises `CannotDecideError` when sigstore or its public root is not at hand, and
        `InputError` for a trusted root that can't be read."""
        key = certificate_key_id(envelope)
        return None if key is None or self.why_not(envelope) is not None else key

    def why_not(self, envelope: Envelope) -> str | None:
        """See `dsse.Verifier`."""
        if envelope.bundle is None or certificate_key_id(envelope) is None:
            return None
        try:
            from cryptography.x509 import ExtensionNotFound
            from sigstore.errors import Error
            from sigstore.models import Bundle
            from sigstore.verify import policy
        except ImportError as error:
            raise CannotDecideError(
                f"a sigstore bundle can't be verified here: {error}",
                remedy=INSTALL,
            ) from error
        verifier = sigstore_verifier(self.root, self.place)
        whose = policy.Identity(identity=self.identity, issuer=self.issuer)
        try:
            kind, payload = verifier.verify_dsse(Bundle.from_json(envelope.bundle), whose)
        except (Error, ExtensionNotFound, ValueError, TypeError, LookupError, struct.error) as error:
            return str(error) or type(error).__name__
        if (kind, payload) != (envelope.payload_type, envelope.payload):
            return "the bundle can be read in two ways"
        return None


@dataclass(frozen=True, kw_only=True)
class LogEntry:
    """What a transparency log says of a bundle; to be believed after the bundle was verified."""

    index: int
    logged_at: str
    """ISO 8601, UTC."""


def parse_keyless(
    text: str, *, origin: str, beside: Callable[[str], str | None], place: Callable[[str], str]
) -> KeylessVerifier:
    """The verifier that a signer's file asks for; `beside` reads a file of its folder, `place` names it in errors.

    Raises `InputError`, also where the trusted root that it names is not there.
    """
    spec = validate(parse_yaml(text, origin=origin), KeylessFile, origin=origin).spec
    root = None
    if spec.trusted_root is not None and (root := beside(spec.trusted_root)) is None:
        raise InputError(
            f"{origin}: {spec.trusted_root} is not beside it", remedy="add that file, or take the line out"
        )
    return KeylessVerifier(
        identity=spec.identity,
        issuer=spec.issuer,
        root=root,
        place=place(spec.trusted_root) if spec.trusted_root else "the public sigstore",
    )


def keyless_name(identity: str, issuer: str) -> str:
    """Who signs without a key of their own."""
    return f"{identity} ({issuer})"


def certificate_key_id(envelope: Envelope) -> str | None:
    """The fingerprint of the key in a bundle's certificate; None where there is none that may sign."""
    from cryptography.x509 import load_der_x509_certificate

    try:
        raw = _material(envelope)["certificate"]["rawBytes"]
        key = as_public_key(load_der_x509_certificate(base64.b64decode(raw, validate=True)).public_key())
    except (ValueError, KeyError, TypeError):
        return None
    return None if key is None else key_id(key)


def log_entry(envelope: Envelope) -> LogEntry | None:
    """When the log took a bundle in, as it promised; None where it makes no promise (a time stamp stands for it)."""
    try:
        (entry,) = _material(envelope)["tlogEntries"]
        if not entry["inclusionPromise"]["signedEntryTimestamp"]:
            return None
        at = datetime.fromtimestamp(int(entry["integratedTime"]), UTC)
        return LogEntry(index=int(entry["logIndex"]), logged_at=at.strftime("%Y-%m-%dT%H:%M:%SZ"))
    except (ValueError, KeyError, TypeError, OverflowError, OSError):
        return None


@lru_cache(maxsize=16)
def sigstore_verifier(root: str | None, place: str) -> SigstoreVerifier:
    """Sigstore's verifier for a trusted root's text, else for the public one. Raises as `KeylessVerifier.signer_of`."""
    from sigstore.errors import Error
    from sigstore.verify import Verifier

    try:
        return Verifier.production() if root is None else Verifier(trusted_root=trusted_root(root))
    except (Error, ValueError, TypeError, LookupError, OSError) as error:
        if root is not None:
            raise InputError(
                f"{place}: no trusted root of a sigstore: {error}",
                remedy="wanted JSON, as sigstore's trusted_root.json or a client trust configuration",
            ) from error
        raise CannotDecideError(
            f"the public sigstore's trusted root could not be brought up to date: {error} ({error.__cause__!r})",
            remedy="allow tuf-repo-cdn.sigstore.dev, or put a trusted_root.json beside the signer's file in "
            "policies/signers and name it there (trusted_root)",
        ) from error


def trusted_root(text: str) -> TrustedRoot:
    """A trusted root, or that of a client trust configuration. Raises what sigstore and JSON raise."""
    from sigstore.models import ClientTrustConfig, TrustedRoot

    if "clienttrustconfig" in str(json.loads(text)["mediaType"]):
        return ClientTrustConfig.from_json(text).trusted_root
    with tempfile.TemporaryDirectory() as folder:  # the library reads files only
        path = Path(folder, "trusted_root.json")
        path.write_text(text, encoding="utf-8")
        return TrustedRoot.from_file(str(path))


def _material(envelope: Envelope) -> Any:
    return json.loads(envelope.bundle or "{}")["verificationMaterial"]
