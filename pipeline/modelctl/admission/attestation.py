"""A signed report: an in-toto statement (v1) about the served files, in a DSSE envelope, signed with Ed25519.

The subjects are the served files; the predicate holds the whole report and the list that the served tree digest follows
from. A statement is believed only after a signature of an allowed key was verified over its exact bytes, and only when
its parts agree.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelctl.admission.report import Report, as_plain
from modelctl.errors import InputError, RefusedError
from modelctl.model.tree import FileEntry, Tree

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://modelctl.dev/admission/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
NEW_KEY = "ssh-keygen -t ed25519 -N '' -f KEY, then set signing.key (MODELCTL_SIGNING_KEY) to KEY"


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """A DSSE envelope: the payload's exact bytes and (key id, signature) pairs."""

    payload: bytes
    payload_type: str
    signatures: tuple[tuple[str, bytes], ...]

    def to_json(self) -> str:
        """Deterministic JSON with a final newline."""
        signatures = [{"keyid": key, "sig": base64.b64encode(sig).decode()} for key, sig in self.signatures]
        body = {
            "payload": base64.b64encode(self.payload).decode(),
            "payloadType": self.payload_type,
            "signatures": signatures,
        }
        return json.dumps(body, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str, *, origin: str) -> Envelope:
        """Parse. Raises `InputError` that names `origin`."""
        try:
            body = json.loads(text)
            return cls(
                payload=base64.b64decode(body["payload"], validate=True),
                payload_type=str(body["payloadType"]),
                signatures=tuple(
                    (str(item.get("keyid", "")), base64.b64decode(item["sig"], validate=True))
                    for item in body["signatures"]
                ),
            )
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, RecursionError) as error:
            raise InputError(f"{origin}: not a DSSE envelope: {error!r}") from error


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What an allowed key has said: this report holds for exactly these served files."""

    report: Report
    served: Tree
    """The files without a place on disk."""
    key_id: str


def load_signing_key(path: Path | None) -> Ed25519PrivateKey:
    """The private key that signs. Raises `InputError`: not set, missing, with a passphrase, or not Ed25519."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    if path is None:
        raise InputError("no signing key is set: a publication is signed", remedy=NEW_KEY)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"signing.key: {path}: {error.strerror}", remedy=NEW_KEY) from error
    load = load_ssh_private_key if b"BEGIN OPENSSH PRIVATE KEY" in content else load_pem_private_key
    try:
        key = load(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        problem = "has a passphrase" if "password" in str(error).lower() else "is no private key that can be read"
        raise InputError(f"signing.key: {path} {problem}", remedy=NEW_KEY) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"signing.key: {path} is no Ed25519 key", remedy=NEW_KEY)
    return key


def key_id(key: Ed25519PublicKey) -> str:
    """The fingerprint that `ssh-keygen -l` prints: `SHA256:` and the unpadded base64 of the key blob's sha256."""
    blob = base64.b64decode(public_line(key).split(" ")[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def public_line(key: Ed25519PublicKey) -> str:
    """The key as OpenSSH writes it: `ssh-ed25519 AAAA…`."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def sign(report: Report, tree: Tree, key_path: Path | None) -> Envelope:
    """Sign a report about its served tree. Raises `InputError` (the key), `RefusedError` (of another tree)."""
    key = load_signing_key(key_path)
    if report.model.served_digest != tree.digest:
        raise RefusedError(
            f"the report is of {report.model.served_digest}, the files are {tree.digest}",
            remedy="admit the release again",
        )
    payload = json.dumps(_statement(report, tree), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    signature = key.sign(pre_authentication_encoding(PAYLOAD_TYPE, payload))
    return Envelope(payload=payload, payload_type=PAYLOAD_TYPE, signatures=((key_id(key.public_key()), signature),))


def verify(envelope: Envelope, allowed_keys: Sequence[Ed25519PublicKey]) -> Statement:
    """What the envelope says, if one of `allowed_keys` signed it. Raises `RefusedError` otherwise.

    The key ids of an envelope are hints that anyone can write: every allowed key is tried.
    """
    signer = _signer(envelope, allowed_keys)
    if signer is None:
        named = ", ".join(name or "(unnamed)" for name, _ in envelope.signatures) or "nobody"
        raise RefusedError(
            f"the attestation names {named} as signer, and no allowed key has signed these bytes",
            remedy="add the signer's public key to policies/allowed_signers by a reviewed change, or publish again",
        )
    if envelope.payload_type != PAYLOAD_TYPE:
        raise RefusedError(f"the attestation's payload is '{envelope.payload_type}', wanted '{PAYLOAD_TYPE}'")
    try:
        body = json.loads(envelope.payload)
        if (body["_type"], body["predicateType"]) != (STATEMENT_TYPE, PREDICATE_TYPE):
            raise RefusedError(f"the attestation says {body['predicateType']}, wanted {PREDICATE_TYPE}")
        subjects = {str(item["name"]): str(item["digest"]["sha256"]) for item in body["subject"]}
        served = _tree(body["predicate"]["served"]["files"])
        report = Report.from_json(json.dumps(body["predicate"]["report"]), origin="the attestation")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InputError) as error:
        raise RefusedError(f"the attestation is signed but is no admission statement: {error}") from error
    listed = {entry.path: entry.sha256 for entry in served.files}
    if subjects != listed or len(body["subject"]) != len(served.files) or served.digest != report.model.served_digest:
        raise RefusedError("the attestation contradicts itself: subjects, file list and report name different bytes")
    return Statement(report=report, served=served, key_id=key_id(signer))


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """What a DSSE signature is over (DSSE v1.0.2, "PAE"): both parts with their lengths in bytes."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _signer(envelope: Envelope, allowed_keys: Sequence[Ed25519PublicKey]) -> Ed25519PublicKey | None:
    from cryptography.exceptions import InvalidSignature

    signed = pre_authentication_encoding(envelope.payload_type, envelope.payload)
    for key in allowed_keys:
        for _, signature in envelope.signatures:
            try:
                key.verify(signature, signed)
            except InvalidSignature:
                continue
            return key
    return None


def _statement(report: Report, tree: Tree) -> Mapping[str, object]:
    files = [{"path": f.path, "size_bytes": f.size_bytes, "sha256": f.sha256} for f in tree.files]
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": f.path, "digest": {"sha256": f.sha256}} for f in tree.files],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "release": report.model.release,
            "verdict": report.verdict,
            "source": {"tree_digest": report.model.source_digest},
            "served": {"tree_digest": tree.digest, "size_bytes": tree.size_bytes, "files": files},
            "policy": {"name": report.policy.name, "digest": report.policy.digest},
            "report": as_plain(report),
        },
    }


def _tree(files: Sequence[Mapping[str, Any]]) -> Tree:
    entries = (FileEntry(path=str(f["path"]), size_bytes=int(f["size_bytes"]), sha256=str(f["sha256"])) for f in files)
    return Tree(root=Path(), files=tuple(entries))
