"""DSSE envelopes (Dead Simple Signing Envelope v1.0.2), and the one seam between them and whatever signs or verifies.

A signature is over the payload's type and exact bytes, never over a way of writing them down again. The key ids of an
envelope are hints that anyone can write: a verifier goes by its own key alone.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from modelctl.errors import InputError

PAYLOAD_TYPE = "application/vnd.in-toto+json"


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """A DSSE envelope: the payload's exact bytes and (key id, signature) pairs."""

    payload: bytes
    payload_type: str
    signatures: tuple[tuple[str, bytes], ...]
    bundle: str | None = None
    """The text of the sigstore bundle that brought the envelope; None for one that stands alone."""

    def to_json(self) -> str:
        """Deterministic JSON with a final newline; of a bundle its own text."""
        return self.bundle if self.bundle is not None else json.dumps(self.as_plain(), indent=2, sort_keys=True) + "\n"

    def as_plain(self) -> dict[str, Any]:
        """The envelope as JSON values."""
        signatures = [{"keyid": key, "sig": base64.b64encode(sig).decode()} for key, sig in self.signatures]
        return {
            "payload": base64.b64encode(self.payload).decode(),
            "payloadType": self.payload_type,
            "signatures": signatures,
        }

    @classmethod
    def from_json(cls, text: str, *, origin: str) -> Envelope:
        """Parse an envelope, or the one that a sigstore bundle holds. Raises `InputError` that names `origin`."""
        try:
            body = json.loads(text)
            bundle = text if "dsseEnvelope" in body else None
            body = body["dsseEnvelope"] if bundle is not None else body
            return cls(
                payload=base64.b64decode(body["payload"], validate=True),
                payload_type=str(body["payloadType"]),
                signatures=tuple(
                    (str(item.get("keyid", "")), base64.b64decode(item["sig"], validate=True))
                    for item in body["signatures"]
                ),
                bundle=bundle,
            )
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, RecursionError) as error:
            raise InputError(f"{origin}: not a DSSE envelope: {error!r}") from error

    def named(self) -> str:
        """Whom the envelope names as its signers, for a person; nothing of it is proven."""
        unnamed = "(unnamed)" if self.bundle is None else "the certificate in its sigstore bundle"
        return ", ".join(name or unnamed for name, _ in self.signatures) or "nobody"


class Signer(Protocol):
    """Something that signs."""

    @property
    def key_id(self) -> str | None:
        """Names the key (`keys.key_id`); None of one that has a new key for each signature."""

    @property
    def name(self) -> str:
        """Names the signer as its verifier does: the key's id, or an identity with its issuer."""

    @property
    def to_allow(self) -> str:
        """What a reviewed change does so that its signatures count."""

    def seal(self, payload: bytes) -> Envelope:
        """The in-toto statement `payload` in a signed envelope, whose one signature names the key."""


class Verifier(Protocol):
    """Something that knows one signer's signatures."""

    @property
    def name(self) -> str:
        """Names the signer: the key's id, or an identity with its issuer."""

    @property
    def kind(self) -> str:
        """How it is signed, for a person: `Ed25519`, `ECDSA P-256`."""

    def signer_of(self, envelope: Envelope) -> str | None:
        """The id of the key that signed the envelope, when that is this verifier's signer; else None."""

    def why_not(self, envelope: Envelope) -> str | None:
        """Why it is not this verifier's, where there is more to say than that another key signed it."""


class SignedBy(NamedTuple):
    """Who has signed, and with which key."""

    name: str
    """As the signer's verifier names it."""
    key_id: str

    @property
    def identity(self) -> str | None:
        """The identity and its issuer, where the signer is none of those that a key names."""
        return None if self.name == self.key_id else self.name


def signer_of(envelope: Envelope, verifiers: Iterable[Verifier]) -> SignedBy | None:
    """Which of `verifiers` has signed the envelope, the first of them; None when none has."""
    for verifier in verifiers:
        if (key_id := verifier.signer_of(envelope)) is not None:
            return SignedBy(verifier.name, key_id)
    return None


def disowned(envelope: Envelope, verifiers: Iterable[Verifier]) -> str:
    """Whom an envelope names, and why it is none of the verifiers', for a person."""
    reasons = [f"{verifier.name}: {why}" for verifier in verifiers if (why := verifier.why_not(envelope)) is not None]
    return "; ".join([f"it names {envelope.named()}", *reasons])


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """What a signature is over (the specification's PAE): both parts with their lengths in bytes."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
