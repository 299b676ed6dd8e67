"""The bytes of one file that have arrived so far, kept on disk so that the next run goes on where this one stopped.

A part is only ever appended to, so whatever ended the last run (SIGKILL too) left a beginning of the file. Its hash is
taken over what lies there and continued. One process at a time holds a part: the lock ends with the process. A part
that nothing was added to for a week is of a download that nobody goes on with, and the next one removes it, unless it
wants the same file.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedWriter
from pathlib import Path

from modelctl.model.listing import Digest, UpstreamFile, new_digest

BLOCK_BYTES = 1 << 20
MAX_AGE_S = 7 * 24 * 3600.0
"""How long a part is kept that nothing is added to."""


@dataclass(kw_only=True)
class Part:
    """An open part."""

    file: UpstreamFile
    path: Path
    sink: BufferedWriter
    digest: Digest
    received: int = 0
    pieced: bool = False
    """Whether the bytes are from more than one answer, so that one wrong piece may have spoiled the rest."""

    def add(self, block: bytes) -> None:
        """Append what arrived. Raises `OSError` when the disk does not take it."""
        self.sink.write(block)
        self.digest.update(block)
        self.received += len(block)

    def restart(self) -> int:
        """Throw away what is there, and return how many bytes that was."""
        lost = self.received
        self.sink.flush()
        self.sink.truncate(0)
        self.digest = new_digest(self.file, size_bytes=self.file.size_bytes)
        self.received, self.pieced = 0, False
        return lost

    def keep_as(self, blob: Path) -> None:
        """Give the finished file its name, read-only."""
        self.sink.flush()
        self.path.chmod(0o444)
        self.path.replace(blob)

    def discard(self) -> None:
        """Remove the part: its bytes are wrong."""
        self.path.unlink(missing_ok=True)


@contextmanager
def open_part(path: Path, file: UpstreamFile, advance: Callable[[int], object]) -> Iterator[Part | None]:
    """Open the part at `path`, begun or not, and hash what lies there; None while another process holds it.

    `advance` is told of every block that was found; what it raises ends the reading. Raises `OSError`.
    """
    with path.open("ab") as sink:
        if not _is_ours(sink, path):
            yield None
            return
        part = Part(file=file, path=path, sink=sink, digest=new_digest(file, size_bytes=file.size_bytes))
        found = os.fstat(sink.fileno()).st_size
        if found > file.size_bytes:
            part.restart()
        elif found:
            with path.open("rb", buffering=0) as stream:
                while block := stream.read(BLOCK_BYTES):
                    part.digest.update(block)
                    part.received += len(block)
                    advance(len(block))
            part.pieced = True
        try:
            yield part
        finally:
            if not part.received:
                part.discard()


def prune_parts(folder: Path, *, wanted: Set[str]) -> int:
    """Remove the parts of a folder that are older than `MAX_AGE_S` and that no process holds; returns their bytes.

    Those of the names in `wanted` stay: they are about to be gone on with. Raises `OSError`.
    """
    oldest_s = time.time() - MAX_AGE_S
    freed = 0
    for path in folder.iterdir():
        try:
            if path.name in wanted or path.is_symlink() or not path.is_file() or path.stat().st_mtime >= oldest_s:
                continue
            with path.open("ab") as sink:
                if _is_ours(sink, path) and os.fstat(sink.fileno()).st_mtime < oldest_s:
                    freed += os.fstat(sink.fileno()).st_size
                    path.unlink()
        except FileNotFoundError:  # finished or removed meanwhile
            continue
    return freed


def _is_ours(sink: BufferedWriter, path: Path) -> bool:
    """Lock the file, and see that the name still leads to it: whoever held it may have finished meanwhile."""
    try:
        fcntl.flock(sink, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    try:
        return os.path.samestat(os.fstat(sink.fileno()), path.stat())
    except FileNotFoundError:
        return False
