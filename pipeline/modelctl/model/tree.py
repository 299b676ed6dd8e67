"""A folder of files as an immutable list of (path, size, sha256), and the one digest that names those bytes.

Nothing is ignored: hidden folders, caches and `.git` count, since an engine or a person may read them. Links are
followed only to regular files inside the folder or inside `link_roots` (the blob store of a Hub cache); every other
thing is a `PathProblem`, never silently left out.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from modelctl.errors import InputError
from modelctl.progress import SILENT, Progress

DIGEST_PREFIX = "sha256:"
MAX_FILES = 100_000


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One file: POSIX path relative to the tree, size in bytes, sha256 in hex."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class PathProblem:
    """Something in the folder that is no plain file of it: a finding of the integrity check."""

    path: str
    kind: str
    """One of: link-outside, broken-link, special-file, unreadable, control-characters, case-clash."""
    detail: str


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The files below `root`, sorted by path."""

    root: Path
    files: tuple[FileEntry, ...]
    problems: tuple[PathProblem, ...] = ()

    @cached_property
    def digest(self) -> str:
        """`sha256:<hex>` over `path NUL size NUL sha256 LF` of every file, sorted by the path's UTF-8 bytes.

        Paths hold no NUL, so two different lists never give the same input.
        """
        digest = hashlib.sha256()
        for entry in sorted(self.files, key=lambda item: os.fsencode(item.path)):
            digest.update(os.fsencode(entry.path) + b"\0%d\0" % entry.size_bytes + entry.sha256.encode() + b"\n")
        return DIGEST_PREFIX + digest.hexdigest()

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

    def named(self, *names: str) -> Iterator[FileEntry]:
        """The files whose last path part is one of `names`, wherever they lie."""
        for entry in self.files:
            if entry.path.rpartition("/")[2] in names:
                yield entry


def scan_tree(
    root: Path, *, link_roots: Sequence[Path] = (), progress: Progress = SILENT, label: str = "hash files"
) -> Tree:
    """List and hash everything below `root`.

    Raises `InputError` for a missing or empty folder, or over 100,000 files.
    """
    if not root.is_dir():
        raise InputError(f"{root}: not a folder", remedy="name a folder with config.json and *.safetensors in it")
    root = root.resolve()
    paths, problems = _list(root, [root, *(path.resolve() for path in link_roots)])
    if not paths and not problems:
        raise InputError(
            f"{root}: the folder is empty", remedy="name a folder with config.json and *.safetensors in it"
        )
    total = sum((root / path).stat().st_size for path in paths)
    with progress.task(label, total=total, unit="bytes") as task, ThreadPoolExecutor(os.cpu_count()) as pool:
        entries = pool.map(lambda path: _entry(root, path, task.advance), paths)
        files: list[FileEntry] = []
        for path, entry in zip(paths, entries, strict=True):
            if isinstance(entry, FileEntry):
                files.append(entry)
            else:
                problems.append(PathProblem(path=path, kind="unreadable", detail=entry))
    return Tree(root=root, files=tuple(files), problems=tuple(problems))


def hash_file(path: Path, advance: Callable[[float], None] = lambda _: None) -> str:
    """sha256 of a file in hex, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
            advance(len(block))
    return digest.hexdigest()


def _entry(root: Path, path: str, advance: Callable[[float], None]) -> FileEntry | str:
    location = root / path
    try:
        return FileEntry(path=path, sha256=hash_file(location, advance), size_bytes=location.stat().st_size)
    except OSError as error:
        return error.strerror or str(error)


def _list(root: Path, allowed: Sequence[Path]) -> tuple[list[str], list[PathProblem]]:
    paths: list[str] = []
    problems: list[PathProblem] = []
    for folder, folders, names in os.walk(root):
        folders.sort()
        linked = [name for name in folders if Path(folder, name).is_symlink()]
        folders[:] = [name for name in folders if name not in linked]
        for name in sorted(names) + linked:
            location = Path(folder, name)
            path = location.relative_to(root).as_posix()
            problem = _problem(location, path, allowed)
            if problem is not None:
                problems.append(problem)
            else:
                paths.append(path)
                if len(paths) > MAX_FILES:
                    raise InputError(f"{root}: more than {MAX_FILES} files", remedy="name the model's own folder")
    problems += _case_clashes(paths)
    return sorted(paths, key=os.fsencode), problems


def _problem(location: Path, path: str, allowed: Sequence[Path]) -> PathProblem | None:
    if any(ord(character) < 32 or ord(character) == 127 or "\ud800" <= character <= "\udfff" for character in path):
        return PathProblem(path=ascii(path)[1:-1], kind="control-characters", detail="unprintable or undecodable name")
    try:
        target = location.resolve(strict=True)
        mode = target.stat().st_mode
    except (OSError, RuntimeError) as error:
        return PathProblem(path=path, kind="broken-link", detail=f"does not resolve: {error}")
    if not any(target.is_relative_to(root) for root in allowed):
        return PathProblem(path=path, kind="link-outside", detail=f"points outside the repository, to {target}")
    if not stat.S_ISREG(mode):
        what = "a linked folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"
        return PathProblem(path=path, kind="special-file", detail=what)
    return None


def _case_clashes(paths: Sequence[str]) -> list[PathProblem]:
    seen: dict[str, str] = {}
    problems = []
    for path in paths:
        other = seen.setdefault(path.casefold(), path)
        if other != path:
            detail = f"differs from {other} only in case: one overwrites the other on some systems"
            problems.append(PathProblem(path=path, kind="case-clash", detail=detail))
    return problems
