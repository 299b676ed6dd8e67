"""A rollout is one git commit: the rendered folder, and the release's entry among those that the cluster lets in.

Nothing is applied to a cluster from here; Argo CD does that from the commit. What the commit holds is whole or not
there: when git refuses it, the files are put back.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from modelctl.admission.report import Report
from modelctl.documents import read_text
from modelctl.errors import InputError, RefusedError
from modelctl.files import write_whole
from modelctl.git import Git
from modelctl.model.release import load_release, parse_release_id, release_folder
from modelctl.registry.records import REPORT_FILE, Record, load_record
from modelctl.rollout.canary import Share
from modelctl.rollout.environment import environments_folder, load_environment
from modelctl.rollout.manifest import ServedRelease
from modelctl.rollout.published import PUBLISHED_FILE, with_release
from modelctl.rollout.render import FILES, render
from modelctl.rollout.words import DIGEST_TRAILER, ENVIRONMENT_TRAILER, REASON_TRAILER, RELEASE_TRAILER, ROLLOUT_FILE

FIRST_NOTE = (
    "first deployment here: Argo Rollouts has no stable release to compare with, so it skips the canary steps and "
    "their analysis and starts all replicas at once"
)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One file that a rollout changes; None stands for "not there"."""

    path: Path
    """Relative to the registry repository."""
    before: str | None
    after: str | None

    @property
    def diff(self) -> str:
        """Unified diff."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            fromfile="/dev/null" if self.before is None else f"a/{self.path}",
            tofile="/dev/null" if self.after is None else f"b/{self.path}",
        )
        return "".join(lines)


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
    release = _published(root, name, version)
    spec = load_release(release_folder(root, name, version) / "release.yaml").spec
    if spec.base is not None:
        raise InputError(
            f"{release_id} is a LoRA adapter, which no engine serves by itself",
            remedy="roll out its base, with the adapter among the engine's own arguments (--lora-modules)",
        )
    rendered = render(release, spec.serving, environment)

    target = environments_folder(root) / environment_name / name
    first = not (target / ROLLOUT_FILE).exists()
    git = Git.containing(root)
    _require_clean(git, target, root / PUBLISHED_FILE)
    _refuse_strangers(target)
    wanted = {target / file: rendered.files.get(file) for file in FILES}
    allowed = _current(root / PUBLISHED_FILE)
    if allowed is not None:
        wanted[root / PUBLISHED_FILE] = with_release(allowed, release)
    changes = tuple(
        Change(path=path.relative_to(root), before=_current(path), after=after)
        for path, after in wanted.items()
        if after != _current(path)
    )
    commit = None
    if changes and not dry_run:
        with _written(git, root, changes):
            commit = git.commit(
                [root / change.path for change in changes],
                f"Roll out {release.id} to {environment_name}",
                body="\n".join(str(share) for share in rendered.shares),
                trailers=_trailers(release, environment_name, reason),
            )
    return RolledOut(
        release=release.id,
        environment=environment_name,
        tree_digest=release.tree_digest,
        commit=commit,
        changes=changes,
        shares=rendered.shares,
        notes=(FIRST_NOTE, *rendered.notes) if first else rendered.notes,
    )


def _published(root: Path, name: str, version: str) -> ServedRelease:
    record = load_record(root, name, version)
    folder = release_folder(root, name, version)
    if Git.containing(root).run("status", "--porcelain", "--", str(folder)).strip():
        raise InputError(
            f"{folder}: has changes that are not committed, so git can't answer for this release",
            remedy=f"git status -- {folder}",
        )
    _require_admitted(record, folder)
    return ServedRelease(
        name=name,
        version=version,
        tree_digest=record.served.tree_digest,
        uri=record.served.uri,
        size_bytes=record.served.size_bytes,
    )


def _require_admitted(record: Record, folder: Path) -> None:
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


def _require_clean(git: Git, *paths: Path) -> None:
    changed = git.run("status", "--porcelain", "--", *(str(path) for path in paths)).splitlines()
    if changed:
        listed = ", ".join(line[3:] for line in changed[:3])
        raise InputError(
            f"{listed}: changed and not committed, and this rollout would write there",
            remedy="commit or restore those files, then run the same command again",
        )


def _refuse_strangers(target: Path) -> None:
    strangers = sorted(path.name for path in target.iterdir() if path.name not in FILES) if target.is_dir() else []
    if strangers:
        raise InputError(
            f"{target}: holds {', '.join(strangers)}, which modelctl rollout did not write",
            remedy="move them elsewhere: Argo CD syncs this folder, and it belongs to the release",
        )


def _trailers(release: ServedRelease, environment: str, reason: str | None) -> Mapping[str, str]:
    trailers = {
        RELEASE_TRAILER: release.id,
        DIGEST_TRAILER: release.tree_digest,
        ENVIRONMENT_TRAILER: environment,
    }
    # One line, so that a reason can't forge a trailer of its own.
    words = " ".join((reason or "").split())
    return {**trailers, REASON_TRAILER: words} if words else trailers


@contextmanager
def _written(git: Git, root: Path, changes: Sequence[Change]) -> Iterator[None]:
    try:
        for change in changes:
            _put(root / change.path, change.after)
        yield
    except BaseException:
        for change in changes:
            _put(root / change.path, change.before)
        git.run("reset", "--quiet", "--", *(str(change.path) for change in changes), check=False)
        raise


def _put(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
        if path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)


def _current(path: Path) -> str | None:
    return read_text(path) if path.exists() else None
