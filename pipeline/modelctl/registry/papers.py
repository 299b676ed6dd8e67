"""The papers of a release: what says who vouches for it and what it is made of, signed, in git and in the bucket.

An attestation of the report, a bill of materials, and a signature of the model for other tools, except where an Ed25519
key is all that signs. The same bytes lie beside the record and, for those who pull without git, in the bucket.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modelctl.admission.attestation import sign
from modelctl.admission.dsse import Signer
from modelctl.admission.model_signature import SIGNATURE_FILE, sign_model
from modelctl.admission.names import SIGNERS_FILE, SIGNERS_FOLDER
from modelctl.admission.policy_files import FolderFiles
from modelctl.admission.report import Report
from modelctl.admission.signers import repository_signers
from modelctl.admission.signing import load_model_signer, load_signer
from modelctl.errors import InputError
from modelctl.model.release import ReleaseSpec
from modelctl.model.tree import Tree
from modelctl.progress import Progress
from modelctl.registry.bom import bill_of_materials
from modelctl.registry.card import Card
from modelctl.registry.manifest import Served, attestation_key, bom_key, paper_keys, signature_key
from modelctl.registry.names import ATTESTATION_FILE, BOM_FILE
from modelctl.registry.records import Record
from modelctl.registry.store import ObjectStore
from modelctl.settings import Workspace


@dataclass(frozen=True, kw_only=True)
class Papers:
    """What says of a release who vouches for it, and what it is made of, as files of the record."""

    attestation: bytes
    key_id: str
    """Of the key that signed the attestation."""
    identity: str | None
    """Who signed it, where that key was one of the moment: `identity (issuer)`."""
    model_signature: bytes | None
    bom: bytes

    @classmethod
    def of_record(cls, folder: Path, record: Record) -> Papers:
        """Those of a record that is there; `bom` is empty in one of before there was one."""
        texts = {name: (folder / name).read_bytes() for name in record.evidence.files}
        return cls(
            attestation=texts[ATTESTATION_FILE],
            key_id=record.evidence.key_id,
            identity=record.evidence.identity,
            model_signature=texts.get(SIGNATURE_FILE),
            bom=texts.get(BOM_FILE, b""),
        )

    def files(self) -> dict[str, bytes]:
        """The files that there are, by name."""
        every = {ATTESTATION_FILE: self.attestation, SIGNATURE_FILE: self.model_signature, BOM_FILE: self.bom}
        return {name: content for name, content in every.items() if content}


def load_signers(workspace: Workspace) -> tuple[Signer, Signer | None]:
    """What signs the attestation and the model, which must be allowed to where the repository lists its signers.

    The second is None where an Ed25519 key is all there is. Raises `InputError` for a key that can't sign, or may not,
    and as `load_signer`.
    """
    signer, model_signer = load_signer(workspace), load_model_signer(workspace)
    allowed = repository_signers(FolderFiles(workspace.root))
    for item in (signer, model_signer):
        if item is not None and allowed is not None and item.name not in [known.verifier.name for known in allowed]:
            raise InputError(
                f"what signs, {item.name}, is not in {workspace.root / SIGNERS_FILE} or beside it in "
                f"{SIGNERS_FOLDER}: nobody could verify it",
                remedy=f"by a reviewed change, {item.to_allow}",
            )
    return signer, model_signer


def identity_of(signer: Signer) -> str | None:
    """`identity (issuer)` of a signer that has no key of its own; None of one that a key names."""
    return signer.name if signer.key_id is None else None


def sign_papers(
    report: Report,
    spec: ReleaseSpec,
    tree: Tree,
    served: Served,
    *,
    card: Card,
    signer: Signer,
    model_signer: Signer | None,
    progress: Progress,
) -> Papers:
    """Those of a release that has none yet, signed now; without a `model_signer` a note says what is left out."""
    if model_signer is None:
        progress.note(
            f"no model.sig: model-signing takes ECDSA keys only; {signer.name} is none, signing.model_key may be one"
        )
    attestation = sign(report, tree, signer)
    ((key_id, _),) = attestation.signatures
    return Papers(
        attestation=attestation.to_json().encode(),
        key_id=key_id,
        identity=identity_of(signer),
        model_signature=sign_model(tree, report.model.release or "", model_signer) if model_signer else None,
        bom=bill_of_materials(report, spec, tree, card, served).encode(),
    )


def put_papers(store: ObjectStore, papers: Papers, name: str, version: str, *, anew: bool) -> tuple[str, ...]:
    """Bring what vouches for a release into the bucket, for those who pull without git; returns the keys.

    `anew`: what is there is of an attempt that never became a release.
    """
    for key in paper_keys(name, version) if anew else ():
        store.remove(key)
    contents = {
        attestation_key(name, version): papers.attestation,
        signature_key(name, version): papers.model_signature,
        bom_key(name, version): papers.bom,
    }
    there = {key: content for key, content in contents.items() if content}
    for key, content in there.items():
        store.put_if_absent(key, content)
    return tuple(there)
