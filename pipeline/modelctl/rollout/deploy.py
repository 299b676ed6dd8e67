"""A rollout is one git commit: the rendered folder, and the release's entry among those that the cluster lets in.

Nothing is applied to a cluster from here; Argo CD does that from the commit. What the commit holds is whole or not
there: when git refuses it, the files are put back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from modelctl.admission.model_signature import SIGNATURE_FILE
from modelctl.admission.report import Report
from modelctl.documents import read_text
from modelctl.errors import InputError, RefusedError
from modelctl.git import Git
from modelctl.model.release import load_release, parse_release_id, release_folder
from modelctl.registry.names import REPORT_FILE
from modelctl.registry.records import Record, load_record
from modelctl.registry.retired import refuse_retired
from modelctl.rollout.canary import Share
from modelctl.rollout.changes import Change, changes_to, commit_changes, current, reason_trailer, require_clean
from modelctl.rollout.environment import environments_folder, load_environment
from modelctl.rollout.evidence import evidence_of
from modelctl.rollout.manifest import ServedRelease
from modelctl.rollout.past import still_promoted
from modelctl.rollout.published import with_release
from modelctl.rollout.render import FILES, render
from modelctl.rollout.upstream import require_current
from modelctl.rollout.words import DIGEST_TRAILER, ENVIRONMENT_TRAILER, PUBLISHED_FILE, RELEASE_TRAILER, ROLLOUT_FILE

FIRST_NOTE = (
    "first deployment here: Argo Rollouts has no stable release to compare with, so it skips the canary steps and "
    "their analysis and starts all replicas at once"
)


@dataclass(frozen=True, kw_only=True)
class RolledOut:
    """What a rollout wrote, or would write."""

    release: str
    environment: str
    tree_digest: str
    commit: str | None
    """None for a dry run, and when nothing had to change."""
    changes: tuple[Change, ...]
    """Empty when everything is as it should be already."""
    shares: tuple[Share, ...]
    """What each canary weight really gives."""
    notes: tuple[str, ...]
    """What a person should know, one sentence each."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The changed files, relative to the registry repository."""
        return tuple(change.path for change in self.changes)

    @property
    def diff(self) -> str:
        """Unified diff of all changes."""
        return "".join(change.diff for change in self.changes)


def roll_out(
    root: Path, release_id: str, environment_name: str, *, dry_run: bool = False, reason: str | None = None
) -> RolledOut:
    """Render a published release into an environment and commit it; a dry run stops before the first write.

    Raises `InputError` (not published, no such environment, something left open, uncommitted changes in the way),
    `RefusedError` (record and report contradict each other) and `GitError`.
    """
    root = root.resolve()
    name, version = parse_release_id(release_id)
    environment = load_environment(root, environment_name)
    release, report = _published(root, name, version)
    spec = load_release(release_folder(root, name, version) / "release.yaml").spec
    if spec.base is not None:
        raise InputError(
            f"{release_id} is a LoRA adapter, which no engine serves by itself",
            remedy="roll out its base, with the adapter among the engine's own arguments (--lora-modules)",
        )
    rendered = render(release, spec.serving, environment, evidence_of(report))

    target = environments_folder(root) / environment_name / name
    first = not (target / ROLLOUT_FILE).exists()
    git = Git.containing(root)
    require_clean(git, target, root / PUBLISHED_FILE)
    _refuse_strangers(target)
    wanted = {target / file: rendered.files.get(file) for file in FILES}
    wanted[target / ROLLOUT_FILE] = still_promoted(rendered.files[ROLLOUT_FILE], current(target / ROLLOUT_FILE))
    allowed = current(root / PUBLISHED_FILE)
    if allowed is not None:
        wanted[root / PUBLISHED_FILE] = with_release(allowed, release)
    changes = changes_to(root, wanted)
    notes = (FIRST_NOTE, *rendered.notes) if first else rendered.notes
    commit = None
    if changes:
        notes = (*notes, *require_current(git, target))
        if not dry_run:
            commit = commit_changes(
                git, root, changes, f"Roll out {release.id} to {environment_name}",
                body="\n".join(str(share) for share in rendered.shares),
                trailers=_trailers(release, environment_name, reason),
            )  # fmt: skip
    return RolledOut(
        release=release.id,
        environment=environment_name,
        tree_digest=release.tree_digest,
        commit=commit,
        changes=changes,
        shares=rendered.shares,
        notes=notes,
    )


def _published(root: Path, name: str, version: str) -> tuple[ServedRelease, Report]:
    refuse_retired(root, name, version)
    record = load_record(root, name, version)
    folder = release_folder(root, name, version)
    if Git.containing(root).run("status", "--porcelain", "--", str(folder)).strip():
        raise InputError(
            f"{folder}: has changes that are not committed, so git can't answer for this release",
            remedy=f"git status -- {folder}",
        )
    report = _admitted(record, folder)
    release = ServedRelease(
        name=name,
        version=version,
        tree_digest=record.served.tree_digest,
        uri=record.served.uri,
        size_bytes=record.served.size_bytes,
        signature=current(folder / SIGNATURE_FILE),
    )
    return release, report


def _admitted(record: Record, folder: Path) -> Report:
    report = Report.from_json(read_text(folder / REPORT_FILE), origin=str(folder / REPORT_FILE))
    if report.verdict != "admitted" or report.partial:
        what = "covers only some of the checks" if report.partial else f"says {report.verdict}"
        raise RefusedError(
            f"{record.id}: its report {what}", remedy=f"modelctl admit {folder / 'release.yaml'} decides on the release"
        )
    if report.model.served_digest != record.served.tree_digest:
        raise RefusedError(
            f"{record.id}: admitted was {report.model.served_digest}, the record publishes {record.served.tree_digest}",
            remedy=f"git log -p -- {folder} shows who changed it; modelctl audit {record.id} --verify",
        )
    return report


def _refuse_strangers(target: Path) -> None:
    strangers = sorted(path.name for path in target.iterdir() if path.name not in FILES) if target.is_dir() else []
    if strangers:
        raise InputError(
            f"{target}: holds {', '.join(strangers)}, which modelctl rollout did not write",
            remedy="move them elsewhere: Argo CD syncs this folder, and it belongs to the release",
        )


def _trailers(release: ServedRelease, environment: str, reason: str | None) -> Mapping[str, str]:
    return {
        RELEASE_TRAILER: release.id,
        DIGEST_TRAILER: release.tree_digest,
        ENVIRONMENT_TRAILER: environment,
        **reason_trailer(reason),
    }
