"""Where a download gathers until it is whole: a hidden folder beside the destination, which takes its place at once.

`.<name>.<digest>.partial/` holds `files/`, which becomes the destination by a rename, and `parts/`, the journals of
what has arrived. A destination that holds some of the release already gives its right files as hard links, after they
were hashed; it is never written to. One process at a time holds the folder; the lock ends with the process.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from modelctl.errors import InputError, ModelctlError
from modelctl.model.tree import FileEntry
from modelctl.registry.durable import make_durable, write_out
from modelctl.registry.manifest import Served


@dataclass(frozen=True, kw_only=True)
class Landing:
    """An open hidden folder."""

    destination: Path
    folder: Path

    @property
    def files(self) -> Path:
        """What becomes the destination."""
        return self.folder / "files"

    def path(self, entry: FileEntry) -> Path:
        """Where a file gathers."""
        return self.files / entry.path

    def journal(self, entry: FileEntry) -> Path:
        """Where it is noted which of its parts have arrived."""
        return self.folder / "parts" / hashlib.sha256(entry.path.encode()).hexdigest()

    def adopt(self, entry: FileEntry) -> None:
        """Take a file of the destination that was found to be right."""
        target = self.path(entry)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        self.journal(entry).unlink(missing_ok=True)
        os.link((self.destination / entry.path).resolve(), target)

    def require_space(self, missing_bytes: int) -> None:
        """Raises `ModelctlError` when the disk can't take what is to come."""
        held = sum(path.stat().st_blocks * 512 for path in self.files.rglob("*") if _is_single_file(path))
        free = shutil.disk_usage(self.folder).free
        if missing_bytes - held > free:
            raise ModelctlError(
                f"{self.folder.parent}: {missing_bytes - held} bytes are still to come, and {free} are free",
                remedy="free some space, or name a folder on another disk; what has arrived is kept",
            )

    def place(self, written: Sequence[Path]) -> None:
        """Let the destination be the files that were gathered: a reader sees the old folder, none, or the new one.

        What was `written` is on the disk before, so that a power failure leaves no whole folder with holes in it.
        """
        make_durable(self.files, written)
        shutil.rmtree(self.folder / "parts")
        old = self.folder / "old"
        if self.destination.exists():
            self.destination.rename(old)
        self.files.rename(self.destination)
        write_out(self.destination.parent)
        shutil.rmtree(self.folder)


@contextmanager
def landing(destination: Path, served: Served) -> Iterator[Landing]:
    """The hidden folder of a release, made or found again.

    Raises `InputError` when nothing can take the destination's place, `ModelctlError` while another process holds it.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    what = _irreplaceable(destination)
    if what is not None:
        raise InputError(
            f"{destination}: {what}, and a whole folder has to take its place",
            remedy=f"name a folder inside it: {destination / 'model'}",
        )
    folder = _hidden(destination, served)
    folder.mkdir(exist_ok=True)
    with _alone(folder):
        _restore(folder, destination)
        for name in ("files", "parts"):
            (folder / name).mkdir(exist_ok=True)
        _remove_strangers(folder / "files", served)
        yield Landing(destination=destination, folder=folder)


def sweep(destination: Path, served: Served) -> None:
    """Remove what a run left that was killed after the destination had become whole."""
    folder = _hidden(destination, served)
    if folder.is_dir():
        with _alone(folder):
            shutil.rmtree(folder)


def _irreplaceable(destination: Path) -> str | None:
    """Why no folder can take the destination's place; None when one can."""
    if destination.is_symlink():
        return "a symbolic link"
    if destination.is_mount():
        return "a mount point"
    return "holds the working directory" if Path.cwd().is_relative_to(destination.resolve()) else None


def _hidden(destination: Path, served: Served) -> Path:
    mark = served.tree_digest.removeprefix("sha256:")[:12]
    return destination.parent / f".{destination.name}.{mark}.partial"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ModelctlError(f"another download works in {folder}", remedy="wait for it to end") from error
        if not folder.is_dir():  # it finished between the two calls above
            raise ModelctlError(f"another download has just ended in {folder}", remedy="run the same command again")
        yield
    finally:
        os.close(descriptor)


def _restore(folder: Path, destination: Path) -> None:
    """Put back what a killed run had set aside, or remove it when the new folder is in place."""
    old = folder / "old"
    if old.is_dir() and not destination.exists():
        old.rename(destination)
    shutil.rmtree(old, ignore_errors=True)


def _remove_strangers(files: Path, served: Served) -> None:
    wanted = served.tree.by_path
    for path in files.rglob("*"):
        if path.is_symlink() or (not path.is_dir() and path.relative_to(files).as_posix() not in wanted):
            path.unlink()


def _is_single_file(path: Path) -> bool:
    """A file of ours, and no hard link to one of the destination's."""
    return path.is_file() and path.stat().st_nlink == 1
