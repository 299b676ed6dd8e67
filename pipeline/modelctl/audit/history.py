"""The git history of a registry repository, read once: who changed which file, in which commit, with which trailers.

Fields are separated by NUL, which neither a name nor a message can hold, so nothing that a person writes can pose as
another field. Replacement objects and the reader's own log settings are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from modelctl.git import Git

KEPT_PATHS = ("registry", "gitops", "policies")
_FORMAT = "%H%x00%P%x00%cI%x00%an%x00%ae%x00%s%x00%(trailers:only,unfold)"
_FIELDS = 7
_STATUS = re.compile(r"[A-Z]+")


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """A file that a commit changed."""

    status: str
    """As git prints it: A, M, D, T; two letters for a merge that differs from both its parents."""
    path: str
    """Relative to the registry repository's root."""

    @property
    def added(self) -> bool:
        """New in this commit."""
        return set(self.status) == {"A"}

    @property
    def deleted(self) -> bool:
        """Gone in this commit."""
        return set(self.status) == {"D"}


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One commit that changed something the registry keeps."""

    id: str
    parents: tuple[str, ...]
    when: str
    """Committer's date, ISO 8601 with zone."""
    author: str
    """`Name <address>`."""
    subject: str
    trailers: tuple[tuple[str, str], ...]
    changes: tuple[FileChange, ...]

    def trailer(self, key: str) -> str | None:
        """The value of a trailer; None when it is not there, or there twice with different values."""
        values = {value for name, value in self.trailers if name.lower() == key.lower()}
        return values.pop() if len(values) == 1 else None


@dataclass(frozen=True)
class History:
    """The commits that lead to HEAD, oldest first, and the files at any of them."""

    root: Path
    commits: tuple[Commit, ...]
    prefix: str
    """Path of the registry repository's root inside the git repository: "" or `folder/`."""

    @property
    def git(self) -> Git:
        """The repository."""
        return Git(self.root)

    @cached_property
    def head(self) -> str:
        """The commit that the history leads to."""
        return self.git.head() or ""

    @cached_property
    def shallow(self) -> bool:
        """Whether older commits were left out when this clone was made."""
        return self.git.run("rev-parse", "--is-shallow-repository").strip() == "true"

    def contents(self, files: list[tuple[str, str]]) -> tuple[bytes | None, ...]:
        """Contents of many (commit, path) at once; None where there is no such file."""
        return self.git.blobs([f"{commit}:{self.prefix}{path}" for commit, path in files]) if files else ()

    def content(self, commit: str, path: str) -> bytes | None:
        """The content of a file at a commit, or None."""
        return self.contents([(commit, path)])[0]

    def object_id(self, commit: str, path: str) -> str | None:
        """The object id of a file or folder at a commit, or None."""
        spec = f"{commit}:{self.prefix}{path}".rstrip("/")
        return self.git.run("rev-parse", "--verify", "--quiet", spec, check=False).strip() or None

    def listing(self, commit: str, folder: str) -> dict[str, str]:
        """Mode and object id of every file below a folder at a commit, by path relative to the root."""
        listed = self.git.run("ls-tree", "-r", "-z", "--full-tree", commit, "--", self.prefix + folder)
        entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
        return {path.removeprefix(self.prefix): about for about, _, path in entries}

    def paths(self, commit: str, *folders: str) -> tuple[str, ...]:
        """All files below some folders at a commit, relative to the root."""
        wanted = [self.prefix + folder for folder in folders]
        listed = self.git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, "--", *wanted)
        return tuple(path.removeprefix(self.prefix) for path in listed.split("\0") if path)

    def is_ancestor(self, earlier: str, later: str) -> bool:
        """Whether `later` builds on `earlier` (or is it)."""
        return self.git.run("merge-base", "--all", earlier, later, check=False).split() == [earlier]


def read_history(root: Path) -> History:
    """Read the history of the registry's folders. Raises `InputError` outside a repository, `GitError`."""
    root = root.resolve()
    git = Git(Git.containing(root).root)
    prefix = root.relative_to(git.root.resolve()).as_posix()
    prefix = "" if prefix == "." else f"{prefix}/"
    if git.head() is None:
        return History(root=root, commits=(), prefix=prefix)
    output = git.run(
        *("--no-replace-objects", "-c", "log.showSignature=false", "-c", "log.showRoot=true", "log"),
        *("-z", "--reverse", "--topo-order", "--full-history", "-c", "--no-renames", "--no-mailmap", "--name-status"),
        *(f"--format={_FORMAT}", "HEAD", "--", *(prefix + path for path in KEPT_PATHS)),
    )
    return History(root=root, commits=tuple(_parse(output, prefix)), prefix=prefix)


def _parse(output: str, prefix: str) -> Iterator[Commit]:
    tokens = output.split("\0")
    position = 0
    while position + _FIELDS <= len(tokens):
        identity, parents, when, name, address, subject, trailers = tokens[position : position + _FIELDS]
        position += _FIELDS
        changes = []
        while position < len(tokens):
            word = tokens[position].strip("\n")
            if _STATUS.fullmatch(word):
                changes.append(FileChange(status=word, path=tokens[position + 1].removeprefix(prefix)))
                position += 2
            elif word:
                break
            else:
                position += 1
        yield Commit(
            id=identity,
            parents=tuple(parents.split()),
            when=when,
            author=f"{name} <{address}>",
            subject=subject,
            trailers=tuple(_trailers(trailers)),
            changes=tuple(changes),
        )


def _trailers(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            yield key.strip(), value.strip()
