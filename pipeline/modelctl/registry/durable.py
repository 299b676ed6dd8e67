"""Bytes that are to outlast a power failure: written out while the rest still arrives, and waited for before a rename.

A rename may reach the disk before what the renamed files hold. So whoever lets a folder appear at once has to see its
bytes on the disk first.
"""

from __future__ import annotations

import ctypes
import errno
import os
import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MANY_FILES = 64
"""From so many on, the whole file system is written out by one call: each file costs a disk a turn."""
EAGER_BYTES = 64 << 20
"""What may gather of one file before it is written out in the background."""


class WriteOut:
    """Writes files out in a thread of its own while others go on writing to them."""

    def __init__(self) -> None:
        self._files: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._gathered: dict[Path, int] = {}

    def wrote(self, path: Path, size_bytes: int) -> None:
        """Note that so many bytes of a file were written."""
        with self._lock:
            self._gathered[path] = self._gathered.get(path, 0) + size_bytes
            if self._gathered[path] < EAGER_BYTES:
                return
            self._gathered[path] = 0
        self._files.put(path)

    def work(self) -> None:
        """What the thread does."""
        while (path := self._files.get()) is not None:
            try:
                write_out(path)
            except OSError:  # `make_durable` meets it again, and says it
                continue

    def end(self) -> None:
        """Let the thread end after the file that it is at."""
        while True:
            try:
                self._files.get_nowait()
            except queue.Empty:
                break
        self._files.put(None)


@contextmanager
def writing_out() -> Iterator[WriteOut]:
    """A `WriteOut` at work for the time of a `with` block."""
    found = WriteOut()
    thread = threading.Thread(target=found.work, name="write-out", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.end()
        thread.join()


def write_out(path: Path) -> None:
    """Wait until a file's or folder's bytes are on the disk; file systems that know no such thing for folders pass."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not path.is_dir() or error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def make_durable(folder: Path, files: Sequence[Path]) -> None:
    """Wait until `files` below a folder and all names in it are on the disk. Raises `OSError` when it can't be."""
    if len(files) >= MANY_FILES:
        _write_out_file_system(folder)
        return
    for path in files:
        write_out(path)
    for inner, _, _ in os.walk(folder):
        write_out(Path(inner))


def _write_out_file_system(folder: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):
        os.sync()
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if libc.syncfs(descriptor):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
    finally:
        os.close(descriptor)
