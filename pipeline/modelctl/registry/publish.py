"""Publication: once, whole, and in an order that an interruption can't harm.

Files first, then the manifest (only if absent), then one commit of the record's folder, then the tag. Running the same
command again finishes what is missing and sends nothing that is there. A release never changes: other bytes under a
published version are refused.
"""

from __future__ import annotations

import datetime
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from modelctl.admission.attestation import key_id, load_signing_key, public_line, sign
from modelctl.admission.policy import LoadedPolicy, Retention
from modelctl.admission.report import Report
from modelctl.admission.signers import SIGNERS_FILE, load_allowed_signers
from modelctl.errors import InputError
from modelctl.git import Git
from modelctl.model.release import Metadata, load_release, parse_release_id, release_folder
from modelctl.model.tree import Tree, hash_file
from modelctl.progress import SILENT, Progress
from modelctl.registry.capabilities import Capabilities, probe
from modelctl.registry.card import extract_card
from modelctl.registry.contents import REQUESTS_AT_ONCE, remember_contents
from modelctl.registry.dvc import dvc_files, ensure_remote, pointer_text
from modelctl.registry.eligibility import read_report, refuse_unless_admitted
from modelctl.registry.manifest import Manifest, Served, attestation_key, manifest_key, object_prefix
from modelctl.registry.recording import commit_record, existing_record, published_already, tag_name, write_record
from modelctl.registry.records import ATTESTATION_FILE
from modelctl.registry.retired import refuse_retired
from modelctl.registry.store import ObjectStore
from modelctl.registry.upload import Step, carry_out, plan_upload, sweep_and_check
from modelctl.settings import Workspace

__all__ = ["Published", "publish", "tag_name"]


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
    capabilities: Capabilities | None
    """What the server can do; None when nothing that depends on it had to be done."""
    retained_until: datetime.datetime | None
    """Until when the server keeps the release from being changed; None when it does not."""

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
    policy: LoadedPolicy,
    progress: Progress = SILENT,
    dry_run: bool = False,
) -> Published:
    """Publish an admitted release, or finish an interrupted publication of it.

    `tree`: the served files, hashed on this machine. `policy`: the one that holds now. Raises `RefusedError` (not
    admitted, other bytes, other policy, too old, published already with other bytes), `InputError` (release, report,
    key), `StoreError` and `GitError`.
    """
    name, version = parse_release_id(release_id)
    folder = release_folder(workspace.root, name, version)
    refuse_retired(workspace.root, name, version)
    load_release(folder / "release.yaml")
    report_text = read_report(report_path, release_id)
    report = Report.from_json(report_text, origin=str(report_path))
    refuse_unless_admitted(report, release_id, tree, policy=policy, release_sha256=hash_file(folder / "release.yaml"))
    signer = _signer(workspace)
    git = Git.containing(workspace.root)
    git.run("var", "GIT_COMMITTER_IDENT")  # a commit that can't be made is known before anything is sent
    served = Served.of(tree, bucket=store.bucket, name=name, version=version)
    existing = existing_record(folder, served, release_id)

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
        capabilities=None,
        retained_until=None,
    )
    if dry_run:
        return result
    retention = policy.policy.spec.retention
    store.ensure_bucket(object_lock=retention is not None)
    can = probe(store) if manifest is None or retention is not None else None
    steps = carry_out(store, tree, steps, name=name, version=version, progress=progress)
    if manifest is None:  # another publisher may have been faster: what is published now is not to be swept
        manifest = _existing_manifest(store, name, version, served)
    envelope = sign(report, tree, _key_path(workspace)) if existing is None else None
    attestation = envelope.to_json().encode() if envelope else (folder / ATTESTATION_FILE).read_bytes()
    if manifest is None:  # one that is there is of an attempt that never became a release
        store.remove(attestation_key(name, version))
    store.put_if_absent(attestation_key(name, version), attestation)
    if manifest is None:
        sweep_and_check(store, tree, name=name, version=version, progress=progress)
        if can is not None and not can.conditional_writes:
            progress.note(
                f"{store.place} does not enforce If-None-Match: two publications at the same instant are not kept apart"
            )
        manifest = _write_manifest(store, name, version, served)
    until = _retain(store, manifest, retention, can, progress) if retention and can else None
    remember_contents(store, tree.files, object_prefix(name, version))
    written: tuple[Path, ...] = ()
    if envelope is not None:
        remote, written = ensure_remote(git.root, store)
        card = extract_card(tree)
        if card.problem:
            progress.note(f"the model card is recorded as unreadable: {card.problem}")
        pointer = pointer_text(store, served, release_id=release_id, remote=remote)
        write_record(folder, manifest, report, report_text=report_text, envelope=envelope, card=card, pointer=pointer)
    beside = [path for path in dvc_files(git.root) if path in written or not git.tracks(path)]
    commit = commit_record(git, folder, report, release_id, served, beside=beside)
    git.tag(result.tag, f"{release_id}\n\nModel-Digest: {served.tree_digest}", at=commit)
    return replace(result, steps=steps, commit=commit, capabilities=can, retained_until=until)


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


def _existing_manifest(store: ObjectStore, name: str, version: str, served: Served) -> Manifest | None:
    content = store.read(manifest_key(name, version))
    if content is None:
        return None
    manifest = Manifest.from_json(content, name=name, version=version)
    if manifest.served.tree_digest != served.tree_digest:
        there = manifest.served.tree_digest
        raise published_already(f"{name}@{version}", there, served.tree_digest, str(store.place))
    return manifest


def _write_manifest(store: ObjectStore, name: str, version: str, served: Served) -> Manifest:
    published_at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    mine = Manifest(release=Metadata(name=name, version=version), served=served, published_at=published_at)
    store.put_if_absent(manifest_key(name, version), mine.to_json())
    there = _existing_manifest(store, name, version, served)  # another publisher may have been first
    return there or mine


def _retain(
    store: ObjectStore, manifest: Manifest, retention: Retention, can: Capabilities, progress: Progress
) -> datetime.datetime | None:
    """Have the server keep the release as it is; the same date at every run, counted from the publication."""
    if not can.object_lock:
        progress.note(
            f"{store.place} has no object lock: nothing there keeps the release for the {retention.days} days that the "
            "policy asks for, but the rights of those who may write"
        )
        return None
    published = datetime.datetime.strptime(manifest.published_at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.UTC)
    until = published + datetime.timedelta(days=retention.days)
    name, version = manifest.release.name, manifest.release.version
    keys = [object_prefix(name, version) + item.path for item in manifest.served.files]
    keys += [attestation_key(name, version), manifest_key(name, version)]
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for _ in pool.map(lambda key: store.retain(key, retention.mode, until), keys):
            pass
    return until
