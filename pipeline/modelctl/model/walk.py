"""What lies below a folder: plain files by name, and everything that is no plain file of it as a `PathProblem`.

Nothing is ignored and nothing is left out silently. A link counts as the file it leads to when that file lies inside
the folder or inside one of the allowed ones; linked folders are never entered. Only links are resolved and only what
the listing cannot tell is asked of the disk, so that the time is linear in the number of files.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelctl.errors import InputError

MAX_FILES = 100_000
"""Files, and folders, that a repository may have."""

_UNSHOWABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line and paragraph separators, what turns the direction of writing, bytes that are no UTF-8."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PathProblem:
    """Something in the folder that is no plain file of it: a finding of the integrity check."""

    path: str
    kind: str
    """One of: link-outside, broken-link, special-file, unreadable, control-characters, case-clash, sparse-giant."""
    detail: str


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The files' paths in the repository and where the bytes of each are, in the disk's order, and what is no file."""

    paths: list[str]
    locations: list[str]
    problems: list[PathProblem]


def _ignore(_: Sequence[str]) -> None:
    pass


def walk(
    root: Path, link_roots: Sequence[Path] = (), *, on_folder: Callable[[Sequence[str]], None] = _ignore
) -> Listing:
    """List what is below `root`, a resolved folder. `link_roots` are other folders that links may lead into, resolved.

    `on_folder` is given the locations of all files found so far after each folder. Raises `InputError` for more than
    100,000 files or folders.
    """
    allowed = (root, *link_roots)
    paths: list[str] = []
    locations: list[str] = []
    problems: list[PathProblem] = []
    folders = [""]
    """Each with its final slash. The list grows while it is walked."""
    for folder in folders:
        try:
            with os.scandir(f"{root}/{folder}") as entries:
                for entry in entries:
                    path = folder + entry.name
                    if entry.is_file(follow_symlinks=False) and path.isprintable():
                        paths.append(path)
                        locations.append(entry.path)
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(path + "/")
                    else:
                        found = _unusual(entry, path, allowed)
                        if isinstance(found, PathProblem):
                            problems.append(found)
                        else:
                            paths.append(path)
                            locations.append(found)
                    if len(paths) > MAX_FILES or len(problems) > MAX_FILES or len(folders) > MAX_FILES + 1:
                        raise InputError(f"{root}: more than {MAX_FILES} files", remedy="name the model's own folder")
        except OSError as error:
            detail = f"the folder cannot be listed: {error.strerror or error}"
            problems.append(PathProblem(path=_shown(folder.rstrip("/") or "."), kind="unreadable", detail=detail))
        on_folder(locations)
    problems += _case_clashes(paths, folders[1:])
    problems.sort(key=lambda problem: (problem.path, problem.kind))
    return Listing(paths=paths, locations=locations, problems=problems)


def _unusual(entry: os.DirEntry[str], path: str, allowed: Sequence[Path]) -> str | PathProblem:
    """Where the bytes are of what has a name with rare characters or is neither file nor folder, or why it is no file
    of the repository."""
    if _UNSHOWABLE.search(path):
        detail = "unprintable or undecodable name"
        return PathProblem(path=_shown(path), kind="control-characters", detail=detail)
    if entry.is_file(follow_symlinks=False):
        return entry.path
    return _target(entry.path, path, allowed)


def _target(location: str, path: str, allowed: Iterable[Path]) -> str | PathProblem:
    """Where a link leads in the end, or why that is no file of the repository."""
    try:
        target = Path(location).resolve(strict=True)
        mode = target.stat().st_mode
    except (OSError, RuntimeError, ValueError) as error:
        return PathProblem(path=path, kind="broken-link", detail=f"does not resolve: {error}")
    if not any(target.is_relative_to(root) for root in allowed):
        return PathProblem(path=path, kind="link-outside", detail=f"points outside the repository, to {target}")
    if not stat.S_ISREG(mode):
        what = "a linked folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"
        return PathProblem(path=path, kind="special-file", detail=what)
    return str(target)


def _case_clashes(paths: Sequence[str], folders: Sequence[str]) -> Iterator[PathProblem]:
    together = "\0".join((*paths, *(folder.rstrip("/") for folder in folders)))
    if together.isascii() and len(set(together.lower().split("\0"))) == len(paths) + len(folders):
        return  # by far the most common case, told by a few calls for all names
    seen = {_folded(path.rstrip("/")): path for path in folders}
    for path in paths:
        other = seen.setdefault(_folded(path), path)
        if other is not path:
            detail = f"differs from {_shown(other)} only in case or accents: one overwrites the other on some systems"
            yield PathProblem(path=path, kind="case-clash", detail=detail)


def _folded(path: str) -> str:
    """The same for names that a file system without case holds to be one (Unicode's canonical caseless matching)."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())


def _shown(path: str) -> str:
    return path if path.isprintable() else ascii(path)[1:-1]
