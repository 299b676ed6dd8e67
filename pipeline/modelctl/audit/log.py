"""git's log as data: who changed which file, in which commit, with which trailers.

Fields are separated by NUL, which neither a name nor a message can hold, so nothing that a person writes can pose as
another field. Replacement objects and the reader's own log settings are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from modelctl.git import Git

KEPT_PATHS = ("registry", "gitops", "policies")
_FORMAT = "%H%x00%P%x00%cI%x00%an%x00%ae%x00%cn%x00%ce%x00%s%x00%(trailers:only,unfold)"
_FIELDS = 9
_LOG = ("--no-replace-objects", "-c", "log.showSignature=false", "-c", "log.showRoot=true", "log", "-z")


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """A file that a commit changed."""

    status: str
    """As git prints it: A, M, D, T; two letters for a merge that differs from both its parents."""
    path: str
    """Relative to the registry repository's root."""
    blob: str | None
    """The object id of the file's content afterwards; None when it is gone."""
    before: str | None
    """The same before; None for a new file."""

    @property
    def added(self) -> bool:
        """New in this commit."""
        return self.status.strip("A") == ""

    @property
    def deleted(self) -> bool:
        """Gone in this commit."""
        return self.status.strip("D") == ""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One commit that changed something the registry keeps."""

    id: str
    parents: tuple[str, ...]
    when: str
    """Committer's date, ISO 8601 with zone."""
    author: str
    """`Name <address>`."""
    committer: str
    subject: str
    trailers: tuple[tuple[str, str], ...]
    changes: tuple[FileChange, ...]

    def trailer(self, key: str) -> str | None:
        """The value of a trailer; None when it is not there, or there twice with different values."""
        values = {value for name, value in self.trailers if name.lower() == key.lower()}
        return values.pop() if len(values) == 1 else None


def read_commits(git: Git, head: str, prefix: str) -> list[Commit]:
    """The commits that lead to `head` and changed a kept file below `prefix`, parents first. Raises `GitError`."""
    words = git.words(
        *(*_LOG, "--reverse", "--topo-order", "--full-history", "-c", "--no-renames", "--no-mailmap", "--raw"),
        *("--no-abbrev", f"--format={_FORMAT}", head, "--", *(prefix + path for path in KEPT_PATHS)),
    )
    return list(_parse(words, prefix))


def commits_named(git: Git, ids: Sequence[str]) -> Mapping[str, Commit]:
    """Commits by their ids, without what they changed, by one process. Raises `GitError`."""
    if not ids:
        return {}
    output = git.run(
        *_LOG, "--no-walk=unsorted", "--no-mailmap", f"--format={_FORMAT}", "--stdin", stdin="\n".join(ids)
    )
    return {commit.id: commit for commit in _parse(iter(output.split("\0")), "")}


def changes_of(git: Git, commit: str) -> list[FileChange]:
    """Every file of the whole repository that a commit changed against its first parent. Raises `GitError`."""
    shown = git.run(*(*_LOG, "-1", "-m", "--first-parent", "--no-renames", "--raw", "--no-abbrev", "--format=", commit))
    words = [word.lstrip("\n") for word in shown.split("\0")]
    return [_change(word, words[number + 1]) for number, word in enumerate(words) if word.startswith(":")]


def _parse(words: Iterator[str], prefix: str) -> Iterator[Commit]:
    identity = next(words, "").strip("\n")
    while identity:
        parents, when, name, address, by, by_address, subject, trailers = islice(words, _FIELDS - 1)
        following, changes = "", []
        for word in words:
            said = word.lstrip("\n")
            if said.startswith(":"):
                changes.append(_change(said, next(words).removeprefix(prefix)))
            elif said:
                following = said
                break
        yield Commit(
            id=identity,
            parents=tuple(parents.split()),
            when=when,
            author=f"{name} <{address}>",
            committer=f"{by} <{by_address}>",
            subject=subject,
            trailers=tuple(_trailers(trailers)),
            changes=tuple(changes),
        )
        identity = following


def _change(raw: str, path: str) -> FileChange:
    """From `:MODE MODE OBJECT OBJECT STATUS`; a merge has a colon, a mode, an object and a letter for each parent."""
    words = raw.split(" ")
    before, after = words[len(words) // 2 : -2], words[-2]
    return FileChange(
        status=words[-1],
        path=path,
        blob=after if after.strip("0") else None,
        before=next((name for name in before if name.strip("0")), None),
    )


def _trailers(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            yield key.strip(), value.strip()
