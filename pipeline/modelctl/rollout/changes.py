"""The files that one commit changes: what they were and will be, written whole, and put back when git refuses."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from modelctl.documents import read_text
from modelctl.errors import InputError
from modelctl.files import write_whole
from modelctl.git import Git
from modelctl.rollout.words import REASON_TRAILER


@dataclass(frozen=True, kw_only=True)
class Change:
    """One file that a commit changes; None stands for "not there"."""

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


def changes_to(root: Path, wanted: Mapping[Path, str | None]) -> tuple[Change, ...]:
    """What has to change below `root` so that each file holds what is wanted, or is not there."""
    return tuple(
        Change(path=path.relative_to(root), before=current(path), after=after)
        for path, after in wanted.items()
        if after != current(path)
    )


def current(path: Path) -> str | None:
    """A file's text; None when it is not there."""
    return read_text(path) if path.exists() else None


def require_clean(git: Git, *paths: Path) -> None:
    """Raise `InputError` when something that a commit would write is changed and not committed."""
    changed = git.run("status", "--porcelain", "--", *(str(path) for path in paths)).splitlines()
    if changed:
        listed = ", ".join(line[3:] for line in changed[:3])
        raise InputError(
            f"{listed}: changed and not committed, and this command would write there",
            remedy="commit or restore those files, then run the same command again",
        )


def one_line(reason: str | None) -> str:
    """A reason on one line, so that it can't forge a trailer of its own; "" when there is none."""
    return " ".join((reason or "").split())


def reason_trailer(reason: str | None) -> Mapping[str, str]:
    """Why, as a trailer; none without a reason."""
    words = one_line(reason)
    return {REASON_TRAILER: words} if words else {}


def commit_changes(
    git: Git, root: Path, changes: Sequence[Change], subject: str, *, body: str = "", trailers: Mapping[str, str]
) -> str | None:
    """Write the changes and commit them, whole or not at all; the commit. Raises `GitError`."""
    with _written(git, root, changes):
        return git.commit([root / change.path for change in changes], subject, body=body, trailers=trailers)


@contextmanager
def _written(git: Git, root: Path, changes: Sequence[Change]) -> Iterator[None]:
    try:
        for change in changes:
            _put(root / change.path, change.after)
        yield
    except BaseException:
        for change in changes:
            _put(root / change.path, change.before)
        git.run("reset", "--quiet", "--", *(str(root / change.path) for change in changes), check=False)
        raise


def _put(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
        if path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)
