"""Writing a release down in git: its folder as one commit, and the tag. Each step finds out whether it was done before.

`record.yaml` is written last, so that a folder that has one is whole; what is written and not committed is committed by
the next run, and a commit without its tag gets it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from modelctl.admission.model_signature import SIGNATURE_FILE
from modelctl.admission.report import Report
from modelctl.documents import load_document
from modelctl.errors import InputError, RefusedError
from modelctl.files import write_whole
from modelctl.git import Git
from modelctl.registry.card import CARD_FILE, Card
from modelctl.registry.dvc import OUTPUT, POINTER_FILE
from modelctl.registry.manifest import Manifest, Served
from modelctl.registry.names import ATTESTATION_FILE, BOM_FILE, CHECKPOINT_FILE, RECORD_FILE, REPORT_FILE
from modelctl.registry.papers import Papers
from modelctl.registry.records import EvidenceRecord, PolicyRecord, Record, SourceRecord

IGNORE_FILE = ".gitignore"
WRITTEN = (
    REPORT_FILE,
    ATTESTATION_FILE,
    SIGNATURE_FILE,
    BOM_FILE,
    CARD_FILE,
    POINTER_FILE,
    IGNORE_FILE,
    CHECKPOINT_FILE,
    RECORD_FILE,
)
"""`model.sig` only where an ECDSA key signs."""


def existing_record(folder: Path, served: Served, release_id: str) -> Record | None:
    """The record that an earlier run left in the release's folder; None when there is none.

    Raises `RefusedError` when it is of other bytes or its evidence was changed, `InputError` when it is of another
    bucket or malformed.
    """
    path = folder / RECORD_FILE
    if not path.exists():
        return None
    record = load_document(path, Record)
    if record.served.tree_digest != served.tree_digest:
        raise published_already(release_id, record.served.tree_digest, served.tree_digest, str(path))
    if record.served.uri != served.uri:
        raise InputError(
            f"{release_id} is recorded at {record.served.uri}, and would go to {served.uri}",
            remedy="set store.bucket to the bucket that the record names",
        )
    for name, wanted in record.evidence.files.items():
        file = folder / name
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != wanted:
            raise RefusedError(
                f"{file} is not the file that {RECORD_FILE} names (sha256 {wanted[:12]}…)",
                remedy=f"git status {folder}, and restore what was changed",
            )
    return record


def published_already(release_id: str, there: str, now: str, where: str) -> RefusedError:
    """The refusal of other bytes under a version that is taken."""
    return RefusedError(
        f"{release_id} is published already with other bytes: {there} ({where}), not {now}",
        remedy="a release never changes: propose these bytes under a new version",
    )


def write_record(
    folder: Path, manifest: Manifest, report: Report, *, report_text: str, papers: Papers, card: Card, pointer: str
) -> None:
    """Write the release's files; `pointer` is the text of `weights.dvc`."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in papers.files().items()}
    record = Record(
        metadata=manifest.release,
        published_at=manifest.published_at,
        source=SourceRecord(
            description=report.model.source,
            tree_digest=report.model.source_digest,
            size_bytes=report.model.source_bytes,
        ),
        policy=PolicyRecord(name=report.policy.name, digest=report.policy.digest),
        evidence=EvidenceRecord(
            report_sha256=hashlib.sha256(report_text.encode()).hexdigest(),
            attestation_sha256=digests[ATTESTATION_FILE],
            key_id=papers.key_id,
            identity=papers.identity,
            model_signature_sha256=digests.get(SIGNATURE_FILE),
            bom_sha256=digests.get(BOM_FILE),
        ),
        served=manifest.served,
    )
    write_whole(folder / REPORT_FILE, report_text)
    for name, content in papers.files().items():
        write_whole(folder / name, content)
    write_whole(folder / CARD_FILE, card.to_yaml())
    write_whole(folder / POINTER_FILE, pointer)
    write_whole(folder / IGNORE_FILE, f"/{OUTPUT}\n")  # where dvc pull puts the bytes, which git must never take in
    write_whole(folder / RECORD_FILE, record.to_yaml())


def commit_record(
    git: Git, folder: Path, report: Report, release_id: str, served: Served, *, beside: Sequence[Path] = ()
) -> str:
    """The commit that holds the record: made now, together with the files `beside` it, or the one of an earlier run."""
    names = [str(folder / name) for name in WRITTEN if (folder / name).exists()]
    record = str(folder / RECORD_FILE)
    made_before = git.run("log", "-1", "--format=%H", "--", record, check=False).strip()
    if made_before and not git.run("status", "--porcelain", "--", *names).strip():
        return made_before
    made = git.commit(
        [folder, *beside],
        f"Publish {release_id}",
        body=f"{len(served.files)} files, {served.size_bytes} bytes at {served.uri}",
        trailers={
            "Model-Release": release_id,
            "Model-Digest": served.tree_digest,
            "Policy-Digest": report.policy.digest,
        },
    )
    if made is None:
        raise InputError(
            f"git has nothing to commit in {folder}", remedy=f"is it ignored? git check-ignore -v {record}"
        )
    return made
