"""Publication: once, whole, and in an order that an interruption can't harm.

Files first, then the manifest (only if absent), then one commit of the record's folder, then the tag. Running the same
command again finishes what is missing and sends nothing that is there. A release never changes: other bytes under a
published version are refused.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from modelctl.admission.policy import LoadedPolicy
from modelctl.admission.report import Report
from modelctl.git import Git
from modelctl.model.release import Metadata, load_release, parse_release_id, release_folder
from modelctl.model.tree import Tree, hash_file
from modelctl.progress import SILENT, Progress
from modelctl.registry.announced import announce, others_announced, withdraw
from modelctl.registry.capabilities import Capabilities, probe
from modelctl.registry.card import extract_card
from modelctl.registry.checkpoint import write_checkpoint
from modelctl.registry.contents import remember_contents
from modelctl.registry.dvc import dvc_files, ensure_remote, pointer_text
from modelctl.registry.eligibility import read_report, refuse_unless_admitted
from modelctl.registry.listed import refuse_other_bytes
from modelctl.registry.manifest import Manifest, Served, manifest_key, object_prefix
from modelctl.registry.papers import Papers, identity_of, load_signers, put_papers, sign_papers
from modelctl.registry.recording import commit_record, existing_record, published_already, write_record
from modelctl.registry.retaining import retain
from modelctl.registry.retired import refuse_retired
from modelctl.registry.store import ObjectStore, StoredObject
from modelctl.registry.upload import Step, carry_out, end_uploads, look_again, plan_upload, sweep
from modelctl.registry.versions import tag_name
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
    key_id: str | None
    """The signing key's; None of a keyless signer that has not signed yet."""
    identity: str | None
    """Of a keyless signer: `identity (issuer)`."""
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
    staged: Mapping[str, StoredObject] | None = None,
    progress: Progress = SILENT,
    dry_run: bool = False,
) -> Published:
    """Publish an admitted release, or finish an interrupted publication of it.

    `tree`: the served files, on this machine; those that were not hashed here are, once, while they are sent or before.
    `staged`: by sha256, those of them that lie in the bucket and
    were hashed there. `policy`: the one that holds now. Raises `RefusedError` (not
    admitted, other bytes, other policy, too old, published already with other bytes), `InputError` (release, report,
    key), `StoreError` and `GitError`.
    """
    name, version = parse_release_id(release_id)
    folder = release_folder(workspace.root, name, version)
    refuse_retired(workspace.root, name, version)
    spec = load_release(folder / "release.yaml").spec
    report_text = read_report(report_path, release_id)
    report = Report.from_json(report_text, origin=str(report_path))
    refuse_unless_admitted(report, release_id, tree, policy=policy, release_sha256=hash_file(folder / "release.yaml"))
    signer, model_signer = load_signers(workspace)
    git = Git.containing(workspace.root)
    git.run("var", "GIT_COMMITTER_IDENT")  # a commit that can't be made is known before anything is sent
    served = Served.of(tree, bucket=store.bucket, name=name, version=version)
    existing = existing_record(folder, served, release_id)

    manifest = _existing_manifest(store, name, version, served)
    steps = plan_upload(store, tree, name=name, version=version, published=manifest is not None, staged=staged)
    result = Published(
        release=release_id,
        served=served,
        steps=steps,
        manifest_existed=manifest is not None,
        commit=None,
        tag=tag_name(name, version),
        key_id=existing.evidence.key_id if existing else signer.key_id,
        identity=existing.evidence.identity if existing else identity_of(signer),
        capabilities=None,
        retained_until=None,
    )
    _read_unread(tree, steps, progress, all_of_them=dry_run)
    if dry_run:
        return result
    retention = policy.policy.spec.retention
    store.ensure_bucket(object_lock=retention is not None)
    can = probe(store) if manifest is None or retention is not None else None
    if manifest is None:
        _begin(store, tree, name, version, progress)
    steps = carry_out(store, tree, steps, name=name, version=version, progress=progress)
    if manifest is None:  # another publisher may have been faster: what is published now is not to be swept
        manifest = _existing_manifest(store, name, version, served)
    card = extract_card(tree)
    if existing is None:
        papers = sign_papers(
            report, spec, tree, served, card=card, signer=signer, model_signer=model_signer, progress=progress
        )
    else:
        papers = Papers.of_record(folder, existing)
    kept = put_papers(store, papers, name, version, anew=manifest is None)
    if manifest is None:
        _before_the_manifest(store, tree, name, version, can, progress)
        manifest = _write_manifest(store, name, version, served)
        withdraw(store, name, version)
    until = retain(store, manifest, retention, can, kept, progress) if retention and can else None
    remember_contents(store, tree.files, object_prefix(name, version))
    written: tuple[Path, ...] = ()
    if existing is None:
        remote, written = ensure_remote(git.root, store)
        if card.problem:
            progress.note(f"the model card is recorded as unreadable: {card.problem}")
        pointer = pointer_text(
            store, served, release_id=release_id, remote=remote, lists_etags=can is None or can.keeps_etags
        )
        write_checkpoint(workspace.root, release_id, served.tree_digest, signer)
        write_record(folder, manifest, report, report_text=report_text, papers=papers, card=card, pointer=pointer)
    beside = [path for path in dvc_files(git.root) if path in written or not git.tracks(path)]
    commit = commit_record(git, folder, report, release_id, served, beside=beside)
    git.tag(result.tag, f"{release_id}\n\nModel-Digest: {served.tree_digest}", at=commit)
    return replace(
        result,
        steps=steps,
        commit=commit,
        key_id=papers.key_id,
        identity=papers.identity,
        capabilities=can,
        retained_until=until,
    )


def _read_unread(tree: Tree, steps: Sequence[Step], progress: Progress, *, all_of_them: bool) -> None:
    """Hash what has not been hashed and will not be as it is sent. Raises `RefusedError` for other bytes."""
    if not tree.hashed:
        refuse_other_bytes(tree, [s.entry for s in steps if all_of_them or s.action != "send"], progress)


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


def _begin(store: ObjectStore, tree: Tree, name: str, version: str, progress: Progress) -> None:
    """Say what is coming, tell of others who said so, and clear away what earlier attempts left."""
    announce(store, name, version, tree.digest)
    for other in others_announced(store, name, version, tree.digest):
        progress.note(
            f"another publication of {name}@{version}, of {other}, has begun and not ended: "
            "if it is still at work, one of the two will be refused"
        )
    sweep(store, tree, name=name, version=version, progress=progress)


def _before_the_manifest(
    store: ObjectStore, tree: Tree, name: str, version: str, can: Capabilities | None, progress: Progress
) -> None:
    """Look at every object once more; where that costs the server reading them all, only when it may matter."""
    end_uploads(store, tree, name=name, version=version)
    if can is None or can.keeps_etags or others_announced(store, name, version, tree.digest):
        look_again(store, tree, name=name, version=version, progress=progress)
    if can is not None and not can.conditional_writes:
        progress.note(
            f"{store.place} does not enforce If-None-Match: two publications at the same instant are not kept apart"
        )
