"""The served tree's signature for other tools: what OpenSSF's model-signing (1.x, https://model_signing/signature/v1.0)
writes and verifies by `model_signing verify key`, made from the digests that an admission holds already.

A sigstore bundle (v0.3) around a DSSE envelope, whose in-toto statement has one subject, the sha256 over the files'
digests in order. That tool takes ECDSA keys only, and leaves git's own files at the top of a folder out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from modelctl.admission.dsse import Envelope, Signer, disowned
from modelctl.admission.in_toto import read_statement, statement
from modelctl.admission.keys import KeySigner, is_ecdsa
from modelctl.admission.signers import AllowedSigner
from modelctl.errors import InputError, RefusedError
from modelctl.model.tree import Tree

SIGNATURE_FILE = "model.sig"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
IGNORED = (SIGNATURE_FILE, ".git", ".gitattributes", ".github", ".gitignore")
"""At a folder's top: what model-signing skips unless it is told otherwise, and the signature itself."""


def sign_model(tree: Tree, name: str, signer: Signer) -> bytes:
    """The text of `model.sig` for a hashed tree. Raises `InputError` for a key that the tool does not take, and
    what the signer raises."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    if not isinstance(signer, KeySigner):
        return signer.seal(_statement(tree, name)).to_json().encode()  # a bundle, with its certificate
    if not is_ecdsa(signer.public):
        raise InputError("a model signature is made with an ECDSA key", remedy="set signing.model_key to one")
    public = signer.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    bundle = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": hashlib.sha256(public).hexdigest()}, "tlogEntries": []},
        "dsseEnvelope": signer.seal(_statement(tree, name)).as_plain(),
    }
    return json.dumps(bundle, indent=2, sort_keys=True).encode() + b"\n"


def verify_model(content: bytes, tree: Tree, signers: Sequence[AllowedSigner], *, origin: str) -> AllowedSigner:
    """The allowed signer who signed exactly the files of `tree`. Raises `RefusedError` when there is none."""
    try:
        envelope = Envelope.from_json(content.decode(errors="replace"), origin=origin)
    except InputError as error:
        raise RefusedError(error.message) from error
    signer = next((item for item in signers if item.verifier.signer_of(envelope) is not None), None)
    if signer is None:
        raise RefusedError(
            f"{origin}: no allowed key has signed it; {disowned(envelope, [item.verifier for item in signers])}",
            remedy="list the signer in policies/allowed_signers or policies/signers by a reviewed change",
        )
    try:
        resources = read_statement(envelope, PREDICATE_TYPE, origin=origin).predicate["resources"]
        signed = [(str(item["name"]), str(item["algorithm"]), str(item["digest"])) for item in resources]
    except (KeyError, TypeError, InputError) as error:
        raise RefusedError(f"{origin}: signed, but no model signature: {error}") from error
    if sorted(signed) != sorted((path, "sha256", digest) for path, digest in _resources(tree)):
        raise RefusedError(f"{origin}: signed are other files than those of {tree.digest}")
    return signer


def _statement(tree: Tree, name: str) -> bytes:
    resources = _resources(tree)
    whole = hashlib.sha256(b"".join(bytes.fromhex(digest) for _, digest in resources)).hexdigest()
    predicate = {
        "serialization": {
            "method": "files",
            "hash_type": "sha256",
            "allow_symlinks": False,
            "ignore_paths": list(IGNORED),
        },
        "resources": [{"name": path, "algorithm": "sha256", "digest": digest} for path, digest in resources],
    }
    return statement(PREDICATE_TYPE, [(name, {"sha256": whole})], predicate)


def _resources(tree: Tree) -> list[tuple[str, str]]:
    """Paths and sha256s as the tool orders them, by the parts of a path."""
    files = [(entry.path, entry.sha256) for entry in tree.files if entry.path.split("/")[0] not in IGNORED]
    return sorted(files, key=lambda item: item[0].split("/"))
