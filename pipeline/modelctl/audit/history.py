"""The git history of a registry repository, read once, and the files at any of its commits.

A registry that was moved as a whole into another folder is followed to where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from modelctl.audit.graph import Graph
from modelctl.audit.log import Commit, changes_of, read_commits
from modelctl.git import Git

MAX_MOVES = 8
Place = tuple[str, str]
"""A commit and a path."""


@dataclass(frozen=True)
class History:
    """The commits that lead to HEAD, oldest first, and the files at any of them."""

    root: Path
    commits: tuple[Commit, ...]
    prefix: str
    """Path of the registry repository's root inside the git repository: "" or `folder/`."""
    head: str = ""
    """The commit that the history leads to; "" before the first one."""
    moves: tuple[Place, ...] = ()
    """Commits that moved the whole registry, newest first, and the prefix before each."""
    _held: dict[Place, bytes | None] = field(default_factory=dict, repr=False, compare=False)
    _ids: dict[Place, str | None] = field(default_factory=dict, repr=False, compare=False)

    @property
    def git(self) -> Git:
        """The repository."""
        return Git(self.root)

    @cached_property
    def graph(self) -> Graph:
        """How all commits hang together, those that changed nothing here too."""
        known = {commit.id: commit.parents for commit in self.commits}
        whole = all(parent in known for parents in known.values() for parent in parents)
        if not self.head or (
            whole and self.head in known
        ):  # every commit changed something here: git need not be asked
            return Graph(known)
        return Graph.of(self.git, self.head)

    @cached_property
    def by_id(self) -> Mapping[str, Commit]:
        """The commits by their ids."""
        return {commit.id: commit for commit in self.commits}

    @cached_property
    def folders(self) -> frozenset[str]:
        """Every folder that a kept commit ever changed a file right in."""
        return frozenset(change.path.rpartition("/")[0] for commit in self.commits for change in commit.changes)

    @cached_property
    def shallow(self) -> bool:
        """Whether older commits were left out when this clone was made."""
        return self.git.run("rev-parse", "--is-shallow-repository").strip() == "true"

    def prefix_at(self, commit: str) -> str:
        """Where the registry was at a commit: its prefix after the last move that the commit builds on."""
        prefix = self.prefix
        for move, before in self.moves:
            if self.graph.is_ancestor(move, commit):
                break
            prefix = before
        return prefix

    def hold(self, files: Iterable[Place]) -> None:
        """Read many (commit, path) at once and keep them, in place of what was kept before."""
        wanted = list(dict.fromkeys(files))
        self._held.clear()
        self._held.update(zip(wanted, self.contents(wanted), strict=True))

    def contents(self, files: Sequence[Place]) -> tuple[bytes | None, ...]:
        """Contents of many (commit, path) at once; None where there is no such file."""
        missing = [place for place in dict.fromkeys(files) if place not in self._held]
        found = (
            dict(zip(missing, self.git.blobs([self._spec(*place) for place in missing]), strict=True))
            if missing
            else {}
        )
        return tuple(found[place] if place in found else self._held[place] for place in files)

    def content(self, commit: str, path: str) -> bytes | None:
        """The content of a file at a commit, or None."""
        return self.contents([(commit, path)])[0]

    def object_ids(self, places: Iterable[Place]) -> tuple[str | None, ...]:
        """Object ids of many files or folders, (commit, path), at once; None where there is none. They are kept."""
        wanted = list(places)
        missing = [place for place in dict.fromkeys(wanted) if place not in self._ids]
        if missing:
            specs = [self._spec(*place).rstrip("/") for place in missing]
            self._ids.update(zip(missing, self.git.object_ids(specs), strict=True))
        return tuple(self._ids[place] for place in wanted)

    def object_id(self, commit: str, path: str) -> str | None:
        """The object id of a file or folder at a commit, or None."""
        return self.object_ids([(commit, path)])[0]

    def listing(self, commit: str, folder: str) -> dict[str, str]:
        """Mode and object id of every file below a folder at a commit, by path relative to the root."""
        prefix = self.prefix_at(commit)
        listed = self.git.run("ls-tree", "-r", "-z", "--full-tree", commit, "--", prefix + folder)
        entries = (entry.partition("\t") for entry in listed.split("\0") if entry)
        return {path.removeprefix(prefix): about for about, _, path in entries}

    def paths(self, commit: str, *folders: str) -> tuple[str, ...]:
        """All files below some folders at a commit, relative to the root."""
        prefix = self.prefix_at(commit)
        wanted = [prefix + folder for folder in folders]
        listed = self.git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, "--", *wanted)
        return tuple(path.removeprefix(prefix) for path in listed.split("\0") if path)

    def is_ancestor(self, earlier: str, later: str) -> bool:
        """Whether `later` builds on `earlier` (or is it)."""
        return self.graph.is_ancestor(earlier, later)

    def _spec(self, commit: str, path: str) -> str:
        prefix = self.prefix_at(commit) if self.moves else self.prefix
        return f"{commit}:{prefix}{path}"


def read_history(root: Path) -> History:
    """Read the history of the registry's folders. Raises `InputError` outside a repository, `GitError`."""
    root = root.resolve()
    git = Git(Git.containing(root).root)
    prefix = root.relative_to(git.root.resolve()).as_posix()
    prefix = "" if prefix == "." else f"{prefix}/"
    head = git.head()
    if head is None:
        return History(root=root, commits=(), prefix=prefix)
    commits = read_commits(git, head, prefix)
    moves: list[Place] = []
    at = prefix
    while commits and len(moves) < MAX_MOVES and (found := _moved_from(git, commits[0], at)) is not None:
        move, at = commits[0], found
        moves.append((move.id, at))
        commits = [*read_commits(git, f"{move.id}^", at), replace(move, changes=()), *commits[1:]]
    return History(root=root, commits=tuple(commits), prefix=prefix, head=head, moves=tuple(moves))


def _moved_from(git: Git, first: Commit, prefix: str) -> str | None:
    """Where the first commit that has files below `prefix` moved all of them from, unchanged; None when it did not."""
    if not first.parents or not first.changes or not all(change.added for change in first.changes):
        return None
    gone: dict[str, set[str]] = {}
    for change in changes_of(git, first.id):
        if change.deleted and change.before:
            gone.setdefault(change.before, set()).add(change.path)
    candidates: set[str] | None = None
    for change in first.changes:
        places = {
            path.removesuffix(change.path) for path in gone.get(change.blob or "", ()) if path.endswith(change.path)
        }
        candidates = places if candidates is None else candidates & places
    found = sorted(place for place in candidates or () if place != prefix and (not place or place.endswith("/")))
    return found[0] if found else None
