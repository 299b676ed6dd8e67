"""The releases that a pull request touches, from git alone: nothing of it is checked out or run.

A pull request brings `registry/<name>/<version>/release.yaml` and nothing else below `registry/`, which publish writes;
a symbolic link there, or a name that no release has, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from modelctl.errors import InputError, RefusedError
from modelctl.git import Git, GitError
from modelctl.model.release import NAME_PATTERN, VERSION_PATTERN

FOLDER = "registry"
_RELEASE = re.compile(rf"{FOLDER}/(?P<name>{NAME_PATTERN[1:-1]})/(?P<version>{VERSION_PATTERN[1:-1]})/release\.yaml")
_FREE = re.compile(rf"{FOLDER}/[^/]+\.md")
"""Documents that describe a registry."""
_CHANGES: dict[str, Literal["added", "changed"]] = {"A": "added", "M": "changed", "T": "changed"}
_LINK = "120000"


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """One release that is proposed or changed."""

    release: str
    """`name@version`."""
    file: str
    """Its path from the registry repository's root."""
    change: Literal["added", "changed"]


def proposed(root: Path, *, base: str, head: str = "HEAD") -> tuple[Proposed, ...]:
    """What `head` brings since it left `base`, by file. A release that was taken out is none.

    Raises `RefusedError` with everything that may not be there, and `InputError` for a commit that is not there.
    """
    git = Git.containing(root)
    inside = root.resolve().relative_to(git.root.resolve()).as_posix()
    prefix = "" if inside == "." else f"{inside}/"
    commits = [_commit(git, base, "--base"), _commit(git, head, "--head")]
    where = f":(top,literal){prefix}{FOLDER}"
    try:
        listed = git.run("diff", "--raw", "-z", "--no-renames", "--abbrev=40", "...".join(commits), "--", where)
    except GitError as error:
        raise InputError(
            f"{base} and {head} have no common commit: {error.message}",
            remedy="fetch the whole history (fetch-depth: 0), then run the same command again",
        ) from error
    found: list[Proposed] = []
    problems: list[str] = []
    for mode, status, path in _entries(listed):
        file = path.removeprefix(prefix)
        matched = _RELEASE.fullmatch(file)
        if mode == _LINK:
            problems.append(f"{file!a} is a symbolic link")
        elif matched is None and not _FREE.fullmatch(file):
            problems.append(f"{file!a} is no registry/<name>/<version>/release.yaml; publish writes the rest")
        elif matched is not None and status in _CHANGES:
            release = f"{matched['name']}@{matched['version']}"
            found.append(Proposed(release=release, file=file, change=_CHANGES[status]))
    if problems:
        raise RefusedError(
            f"the changes since {base} bring what no proposal may: " + "; ".join(problems),
            remedy="leave only release files in the pull request",
        )
    return tuple(found)


def _commit(git: Git, ref: str, option: str) -> str:
    try:
        return git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").strip()
    except GitError as error:
        raise InputError(
            f"{option} {ref}: no such commit in {git.root}", remedy="git fetch origin, with the whole history"
        ) from error


def _entries(listed: str) -> Iterator[tuple[str, str, str]]:
    """(mode afterwards, status letter, path from the top) of each change, as `git diff --raw -z` lists them."""
    parts = listed.split("\0")
    for head, path in zip(parts[::2], parts[1::2], strict=False):
        _, mode, _, _, status = head.removeprefix(":").split(" ")
        yield mode, status[0], path
