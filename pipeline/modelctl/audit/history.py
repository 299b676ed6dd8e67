"""The git history of a registry repository, read once: who changed which file, in which commit, with which trailers.

Fields are separated by NUL, which neither a name nor a message can hold, so nothing that a person writes can pose as
another field. Replacement objects and the reader's own log settings are ignored. A registry that was moved as a whole
into another folder is followed to where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from modelctl.audit.graph import Graph
from modelctl.git import Git

KEPT_PATHS = ("registry", "gitops", "policies")
MAX_MOVES = 8
_FORMAT = "%H%x00%P%x00%cI%x00%an%x00%ae%x00%cn%x00%ce%x00%s%x00%(trailers:only,unfold)"
_FIELDS = 9
_LOG = ("--no-replace-objects", "-c", "log.showSignature=false", "-c", "log.showRoot=true", "log", "-z")
Place = tuple[str, str]
"""A commit and a path."""


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
    commits = _commits(git, head, prefix)
    moves: list[Place] = []
    at = prefix
    while commits and len(moves) < MAX_MOVES and (found := _moved_from(git, commits[0], at)) is not None:
        move, at = commits[0], found
        moves.append((move.id, at))
        commits = [*_commits(git, f"{move.id}^", at), replace(move, changes=()), *commits[1:]]
    return History(root=root, commits=tuple(commits), prefix=prefix, head=head, moves=tuple(moves))


def commits_named(git: Git, ids: Sequence[str]) -> Mapping[str, Commit]:
    """Commits by their ids, without what they changed, by one process. Raises `GitError`."""
    if not ids:
        return {}
    output = git.run(
        *_LOG, "--no-walk=unsorted", "--no-mailmap", f"--format={_FORMAT}", "--stdin", stdin="\n".join(ids)
    )
    return {commit.id: commit for commit in _parse(iter(output.split("\0")), "")}


def _commits(git: Git, head: str, prefix: str) -> list[Commit]:
    words = git.words(
        *(*_LOG, "--reverse", "--topo-order", "--full-history", "-c", "--no-renames", "--no-mailmap", "--raw"),
        *("--no-abbrev", f"--format={_FORMAT}", head, "--", *(prefix + path for path in KEPT_PATHS)),
    )
    return list(_parse(words, prefix))


def _moved_from(git: Git, first: Commit, prefix: str) -> str | None:
    """Where the first commit that has files below `prefix` moved all of them from, unchanged; None when it did not."""
    if not first.parents or not first.changes or not all(change.added for change in first.changes):
        return None
    shown = git.run(
        *(*_LOG, "-1", "-m", "--first-parent", "--no-renames", "--raw", "--no-abbrev", "--format=", first.id)
    )
    words = [word.lstrip("\n") for word in shown.split("\0")]
    whole = [_change(word, words[number + 1]) for number, word in enumerate(words) if word.startswith(":")]
    gone: dict[str, set[str]] = {}
    for change in whole:
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
