"""Publication: once, whole, and in an order that an interruption can't harm.

Files first, then the manifest (only if absent), then one commit of the record's folder, then the tag. Running the same
command again finishes what is missing and sends nothing that is there. A release never changes: other bytes under a
published version are refused.
"""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass
from pathlib import Path

from modelctl.admission.attestation import (
    Envelope,
    key_id,
    load_signing_key,
    public_line,
    sign,
)
from modelctl.admission.report import Report
from modelctl.admission.signers import SIGNERS_FILE, load_allowed_signers
from modelctl.documents import load_document
from modelctl.errors import InputError, RefusedError
from modelctl.files import write_whole
from modelctl.git import Git
from modelctl.model.release import Metadata, load_release, parse_release_id, release_folder
from modelctl.model.tree import Tree, hash_file
from modelctl.progress import SILENT, Progress
from modelctl.registry.eligibility import read_report, refuse_unless_admitted
from modelctl.registry.manifest import Manifest, Served, attestation_key, manifest_key
from modelctl.registry.records import (
    ATTESTATION_FILE,
    RECORD_FILE,
    REPORT_FILE,
    EvidenceRecord,
    PolicyRecord,
    Record,
    SourceRecord,
)
from modelctl.registry.store import ObjectStore
from modelctl.registry.upload import Step, carry_out, plan_upload, sweep_and_check
from modelctl.settings import Workspace


@dataclass(frozen=True, kw_only=True)
class Published:
    """What a publication did, or would do."""

    release: str
    served: Served
    steps: tuple[Step, ...]
    manifest_existed: bool
    commit: str | None
    """The commit that holds the record; None for a dry run."""
    tag: str
    key_id: str
    conditional: bool | None
    """Whether the server kept other publishers apart; None when no manifest had to be written."""

    def bytes_of(self, action: str) -> int:
        """Bytes of the files that were sent, copied or kept."""
        return sum(step.entry.size_bytes for step in self.steps if step.action == action)


def publish(
    workspace: Workspace,
    release_id: str,
    *,
    report_path: Path,
    tree: Tree,
    store: ObjectStore,
    policy_digest: str,
    progress: Progress = SILENT,
    dry_run: bool = False,
) -> Published:
    """Publish an admitted release, or finish an interrupted publication of it.

    `tree`: the served files, hashed on this machine. `policy_digest`: of the policy that holds now. Raises
    `RefusedError` (not admitted, other bytes, other policy, published already with other bytes), `InputError` (release,
    report, key), `StoreError` and `GitError`.
    """
    name, version = parse_release_id(release_id)
    folder = release_folder(workspace.root, name, version)
    load_release(folder / "release.yaml")
    report_text = read_report(report_path, release_id)
    report = Report.from_json(report_text, origin=str(report_path))
    refuse_unless_admitted(
        report,
        release_id,
        tree,
        policy_digest=policy_digest,
        release_sha256=hash_file(folder / "release.yaml"),
    )
    signer = _signer(workspace)
    git = Git.containing(workspace.root)
    git.run("var", "GIT_COMMITTER_IDENT")  # a commit that can't be made is known before anything is sent
    served = Served.of(tree, bucket=store.bucket, name=name, version=version)
    existing = _existing_record(folder, served, release_id)

    manifest = _existing_manifest(store, name, version, served)
    steps = plan_upload(store, tree, name=name, version=version, published=manifest is not None)
    result = Published(
        release=release_id,
        served=served,
        steps=steps,
        manifest_existed=manifest is not None,
        commit=None,
        tag=tag_name(name, version),
        key_id=existing.evidence.key_id if existing else signer,
        conditional=None,
    )
    if dry_run:
        return result
    store.ensure_bucket()
    carry_out(store, tree, steps, name=name, version=version, progress=progress)
    conditional = None
    envelope = sign(report, tree, _key_path(workspace)) if existing is None else None
    attestation = envelope.to_json().encode() if envelope else (folder / ATTESTATION_FILE).read_bytes()
    if manifest is None:  # one that is there is of an attempt that never became a release
        store.remove(attestation_key(name, version))
    store.put_if_absent(attestation_key(name, version), attestation)
    if manifest is None:
        sweep_and_check(store, tree, name=name, version=version, progress=progress)
        conditional = store.enforces_absence()
        if not conditional:
            progress.note(
                f"{store.place} does not enforce If-None-Match: two publications at the same instant are not kept apart"
            )
        manifest = _write_manifest(store, name, version, served)
    if envelope is not None:
        _write_record(folder, manifest, report, report_text, envelope)
    commit = _commit(git, folder, report, release_id, served)
    git.tag(result.tag, f"{release_id}\n\nModel-Digest: {served.tree_digest}", at=commit)
    return Published(**{**vars(result), "commit": commit, "conditional": conditional})


def tag_name(name: str, version: str) -> str:
    """The release's tag in git."""
    return f"{name}@v{version}"


def _signer(workspace: Workspace) -> str:
    """The key id of the signing key, which must be an allowed one where the repository lists them."""
    key = load_signing_key(_key_path(workspace)).public_key()
    path = workspace.root / SIGNERS_FILE
    if path.is_file() and key not in [signer.key for signer in load_allowed_signers(path)]:
        raise InputError(
            f"the signing key {key_id(key)} is not in {path}: nobody could verify the attestation",
            remedy=f"by a reviewed change, add the line: NAME {public_line(key)}",
        )
    return key_id(key)


def _key_path(workspace: Workspace) -> Path | None:
    key = workspace.settings.signing.key
    return workspace.resolve(key) if key else None


def _existing_record(folder: Path, served: Served, release_id: str) -> Record | None:
    path = folder / RECORD_FILE
    if not path.exists():
        return None
    record = load_document(path, Record)
    if record.served.tree_digest != served.tree_digest:
        raise _already_published(release_id, record.served.tree_digest, served.tree_digest, str(path))
    if record.served.uri != served.uri:
        raise InputError(
            f"{release_id} is recorded at {record.served.uri}, and would go to {served.uri}",
            remedy="set store.bucket to the bucket that the record names",
        )
    for name, wanted in (
        (REPORT_FILE, record.evidence.report_sha256),
        (ATTESTATION_FILE, record.evidence.attestation_sha256),
    ):
        file = folder / name
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != wanted:
            raise RefusedError(
                f"{file} is not the file that {RECORD_FILE} names (sha256 {wanted[:12]}…)",
                remedy=f"git status {folder}, and restore what was changed",
            )
    return record


def _existing_manifest(store: ObjectStore, name: str, version: str, served: Served) -> Manifest | None:
    content = store.read(manifest_key(name, version))
    if content is None:
        return None
    manifest = Manifest.from_json(content, name=name, version=version)
    if manifest.served.tree_digest != served.tree_digest:
        there = manifest.served.tree_digest
        raise _already_published(f"{name}@{version}", there, served.tree_digest, str(store.place))
    return manifest


def _already_published(release_id: str, there: str, now: str, where: str) -> RefusedError:
    return RefusedError(
        f"{release_id} is published already with other bytes: {there} ({where}), not {now}",
        remedy="a release never changes: propose these bytes under a new version",
    )


def _write_manifest(store: ObjectStore, name: str, version: str, served: Served) -> Manifest:
    published_at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    mine = Manifest(release=Metadata(name=name, version=version), served=served, published_at=published_at)
    store.put_if_absent(manifest_key(name, version), mine.to_json())
    there = _existing_manifest(store, name, version, served)  # another publisher may have been first
    return there or mine


def _write_record(folder: Path, manifest: Manifest, report: Report, report_text: str, envelope: Envelope) -> None:
    attestation = envelope.to_json().encode()
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
            attestation_sha256=hashlib.sha256(attestation).hexdigest(),
            key_id=envelope.signatures[0][0],
        ),
        served=manifest.served,
    )
    write_whole(folder / REPORT_FILE, report_text)
    write_whole(folder / ATTESTATION_FILE, attestation)
    write_whole(folder / RECORD_FILE, record.to_yaml())


def _commit(git: Git, folder: Path, report: Report, release_id: str, served: Served) -> str:
    """The commit that holds the record: made now, or the one that was made before."""
    names = [str(folder / name) for name in (RECORD_FILE, REPORT_FILE, ATTESTATION_FILE)]
    made_before = git.run("log", "-1", "--format=%H", "--", names[0], check=False).strip()
    if made_before and not git.run("status", "--porcelain", "--", *names).strip():
        return made_before
    made = git.commit(
        [folder],
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
            f"git has nothing to commit in {folder}", remedy=f"is it ignored? git check-ignore -v {names[0]}"
        )
    return made
