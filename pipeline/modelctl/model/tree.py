"""A folder of files as an immutable list of (path, size, sha256), and the one digest that names those bytes.

Nothing is ignored: hidden folders, caches and `.git` count, since an engine or a person may read them. Links are
followed only to regular files inside the folder or inside `link_roots` (the blob store of a Hub cache); every other
thing is a `PathProblem`, never silently left out.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, Protocol

from modelctl.errors import InputError
from modelctl.model.hashing import Hashed, hash_file, hash_files
from modelctl.model.small_files import SmallFiles
from modelctl.model.walk import MAX_FILES, PathProblem, walk
from modelctl.progress import SILENT, Progress

__all__ = ["DIGEST_PREFIX", "MAX_FILES", "FileEntry", "PathProblem", "Scan", "Tree", "hash_file", "scan_tree"]

DIGEST_PREFIX = "sha256:"
MANY_FILES = 4096
"""From so many on, progress counts files: asking each for its size first would take as long as hashing small ones."""


class FileEntry(NamedTuple):
    """One file: POSIX path relative to the tree, size in bytes, sha256 in hex."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The files below `root`, sorted by path."""

    root: Path
    files: tuple[FileEntry, ...]
    problems: tuple[PathProblem, ...] = ()
    hashed: bool = True
    """Whether the bytes were read; else names and sizes were looked at, and the hashes are of an earlier time."""

    @cached_property
    def digest(self) -> str:
        """`sha256:<hex>` over `path NUL size NUL sha256 LF` of every file, sorted by the path's UTF-8 bytes.

        Paths hold no NUL, so two different lists never give the same input.
        """
        try:
            listing = _lines(sorted(self.files, key=itemgetter(0))).encode()  # code points sort as UTF-8 does
        except UnicodeEncodeError:  # names that are no UTF-8: their bytes decide
            listing = _utf8(_lines(sorted(self.files, key=lambda entry: _utf8(entry.path))))
        return DIGEST_PREFIX + hashlib.sha256(listing).hexdigest()

    @cached_property
    def by_path(self) -> dict[str, FileEntry]:
        """The entries by path."""
        return {entry.path: entry for entry in self.files}

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(entry.size_bytes for entry in self.files)

    def location(self, path: str) -> Path:
        """Where a listed file is on disk. Raises `KeyError` for a path that is not in the tree."""
        return self.root / self.by_path[path].path

    @property
    def folders(self) -> list[Path]:
        """What a child must see to read the files: the root, and where links lead (a Hub cache's blobs)."""
        targets = {(self.root / entry.path).resolve().parent for entry in self.files}
        return [self.root, *sorted(folder for folder in targets if not folder.is_relative_to(self.root))]

    def named(self, *names: str) -> Iterator[FileEntry]:
        """The files whose last path part is one of `names`, wherever they lie."""
        for entry in self.files:
            if entry.path.rpartition("/")[2] in names:
                yield entry


class Scan(Protocol):
    """How a folder becomes a tree: `scan_tree`, or what believes a list that was made before."""

    def __call__(self, root: Path, *, link_roots: Sequence[Path] = (), progress: Progress = SILENT) -> Tree:
        """The tree of everything below `root`."""


def scan_tree(
    root: Path, *, link_roots: Sequence[Path] = (), progress: Progress = SILENT, label: str = "hash files"
) -> Tree:
    """List and hash everything below `root`.

    Raises `InputError` for a missing or empty folder, or over 100,000 files.
    """
    if not root.is_dir():
        raise InputError(f"{root}: not a folder", remedy="name a folder with config.json and *.safetensors in it")
    with _no_search_for_cycles():
        return _scan(root.resolve(), link_roots, progress, label)


def _scan(root: Path, link_roots: Sequence[Path], progress: Progress, label: str) -> Tree:
    with SmallFiles() as small:
        listing = walk(root, [path.resolve() for path in link_roots], on_folder=small.offer)
        if not listing.paths and not listing.problems:
            raise InputError(
                f"{root}: the folder is empty", remedy="name a folder with config.json and *.safetensors in it"
            )
        if len(listing.paths) > MANY_FILES:
            with progress.task(label, total=len(listing.paths), unit="files") as task:
                outcomes = hash_files(listing.locations, small=small, on_files=task.advance)
        else:
            with progress.task(label, total=_total_bytes(listing.locations), unit="bytes") as task:
                outcomes = hash_files(listing.locations, small=small, on_bytes=task.advance)
    files: list[FileEntry] = []
    problems = listing.problems
    for path, outcome in zip(listing.paths, outcomes, strict=True):
        if isinstance(outcome, Hashed):
            files.append(FileEntry._make((path, outcome.size_bytes, outcome.sha256)))
        else:
            kind = "sparse-giant" if outcome.sparse else "unreadable"
            problems.append(PathProblem(path=path, kind=kind, detail=outcome.detail))
    files.sort(key=itemgetter(0))
    problems.sort(key=lambda problem: (problem.path, problem.kind))
    return Tree(root=root, files=tuple(files), problems=tuple(problems))


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Keep Python from looking for cycles among hundreds of thousands of new tuples and texts, which have none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _lines(entries: Iterable[FileEntry]) -> str:
    return "".join([f"{path}\0{size_bytes}\0{sha256}\n" for path, size_bytes, sha256 in entries])


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _total_bytes(locations: Sequence[str]) -> int:
    total = 0
    for location in locations:
        try:
            total += Path(location).stat().st_size
        except OSError:  # gone meanwhile: hashing it will say so
            continue
    return total
