"""Folders of hard links to files that are kept once, and what a disk may say about keeping them."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from modelctl.errors import CannotDecideError


def lay_out(target: Path, files: Mapping[str, Path]) -> Path:
    """Make `target` a folder of exactly these files, by path, as hard links where the disk can; returns `target`.

    It appears whole or not at all; one that is that folder already stays. Paths are plain and relative: the caller has
    made sure. Raises `OSError`.
    """
    if target.is_dir() and _is_laid_out(target, files):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name[:12]}."))
    try:
        for path, kept in files.items():
            location = staging / path
            location.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(kept, location)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV):
                    raise
                shutil.copyfile(kept, location)
        staging.chmod(0o755)
        _put(staging, target, files)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _put(staging: Path, target: Path, files: Mapping[str, Path]) -> None:
    """Give the folder its name, or leave the one that another process has made meanwhile."""
    if target.is_dir() and _is_laid_out(target, files):
        return
    if target.exists():
        shutil.rmtree(target)
    try:
        staging.rename(target)
    except OSError:
        if not (target.is_dir() and _is_laid_out(target, files)):
            raise


def _is_laid_out(target: Path, files: Mapping[str, Path]) -> bool:
    found = {path.relative_to(target).as_posix() for path in target.rglob("*") if not path.is_dir()}
    return found == set(files) and all((target / path).samefile(kept) for path, kept in files.items())


def require_space(root: Path, needed_bytes: int) -> None:
    """Raise `CannotDecideError` when the disk of `root` has less than `needed_bytes` left."""
    free = shutil.disk_usage(root).free
    if needed_bytes > free:
        raise CannotDecideError(
            f"{root}: {needed_bytes / 1e9:.1f} GB to download and {free / 1e9:.1f} GB free",
            remedy="free some space, or set state_dir (MODELCTL_STATE_DIR) to a larger disk",
        )


@contextmanager
def disk_errors(root: Path) -> Iterator[None]:
    """Turn an `OSError` within the block into a `CannotDecideError` that says what to do about the disk."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise CannotDecideError(
            f"{root}: {error.strerror or error}",
            remedy="free some space and run the same command again: finished files are kept"
            if full
            else "set state_dir (MODELCTL_STATE_DIR) to a folder that can be written",
        ) from error
