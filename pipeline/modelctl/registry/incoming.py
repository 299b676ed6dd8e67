"""A file on its way to this disk: which of its parts are whole, kept so that whatever ends a download loses none.

What has arrived lies at its place in a file of full size; a journal beside it names the parts that are whole, each
written only after its part. So whatever ends a download (SIGKILL too), the next one goes on with the parts that are
missing. Several threads may write different parts of a file; one at a time hashes it, in order.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from modelctl.model.tree import FileEntry

PART_BYTES = 8 << 20
_LINE_BYTES = 9


@dataclass(kw_only=True)
class Incoming:
    """One file on its way."""

    entry: FileEntry
    key: str
    path: Path
    journal: Path
    lock: Lock = field(default_factory=Lock)
    done: set[int] = field(default_factory=set)
    """Parts that are whole on the disk."""
    resumed: bool = False
    """Whether some of them are an earlier run's."""
    hashing: bool = False
    hashed: int = 0
    """Parts that the hash covers."""
    judged: bool = False
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    @property
    def parts(self) -> int:
        """How many parts the file has; an empty one has none."""
        return -(-self.entry.size_bytes // PART_BYTES)

    def span(self, number: int) -> tuple[int, int]:
        """Offset and length in bytes of a part."""
        offset = number * PART_BYTES
        return offset, min(PART_BYTES, self.entry.size_bytes - offset)

    def open(self) -> int:
        """Find what an earlier run left, or make the file; returns the bytes that are there."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_file() and self.path.stat().st_size == self.entry.size_bytes:
            self.done = {number for number in self._journalled() if number < self.parts}
        if not self.done:
            self.restart()
        self.resumed = bool(self.done)
        return sum(self.span(number)[1] for number in self.done)

    def restart(self) -> None:
        """Forget all of it."""
        self.journal.unlink(missing_ok=True)
        with self.path.open("wb") as stream:
            stream.truncate(self.entry.size_bytes)
        self.done, self.resumed, self.hashing, self.hashed, self.judged = set(), False, False, 0, False
        self.digest = hashlib.sha256()

    def discard(self) -> None:
        """Remove the file: its bytes are wrong."""
        self.path.unlink(missing_ok=True)
        self.journal.unlink(missing_ok=True)

    def missing(self, at_most: int) -> Iterator[range]:
        """The parts that are not there, in order, in runs of at most so many."""
        first = 0
        while first < self.parts:
            last = first
            while last < min(first + at_most, self.parts) and last not in self.done:
                last += 1
            if last > first:
                yield range(first, last)
            first = max(last, first + 1)

    def begin_hashing(self, number: int | None = None) -> bool:
        """Take the hash for this thread, if nobody has it, and part `number` is the next that it wants."""
        with self.lock:
            if self.hashing or number not in (None, self.hashed):
                return False
            self.hashing = True
            return True

    def end_hashing(self) -> None:
        """Give the hash back, which covers one part more."""
        with self.lock:
            self.hashing, self.hashed = False, self.hashed + 1

    def keep(self, number: int) -> None:
        """Note that a part is whole on the disk."""
        with self.lock:
            if self.parts > 1:
                descriptor = os.open(self.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
                try:
                    os.write(descriptor, b"%08x\n" % number)
                finally:
                    os.close(descriptor)
            self.done.add(number)

    def _journalled(self) -> Iterator[int]:
        """The parts that are said to be whole; a file of one part has no journal, its hash tells."""
        if self.parts == 1:
            yield 0
        content = self.journal.read_bytes() if self.parts > 1 and self.journal.is_file() else b""
        for start in range(0, len(content) - _LINE_BYTES + 1, _LINE_BYTES):
            try:
                yield int(content[start : start + _LINE_BYTES], 16)
            except ValueError:  # no line of ours: the rest can't be read either
                return


@dataclass(kw_only=True)
class Writing:
    """Bytes that arrive in order for some parts of a file, to be written and, where it is their turn, hashed."""

    file: Incoming
    descriptor: int
    part: int
    """The one that the next byte belongs to."""
    offset: int
    """Of the next byte."""
    hashes: bool | None = None
    """Whether this part is hashed as it arrives; None before its first byte."""

    def take(self, block: memoryview) -> Iterator[int]:
        """Take the next bytes; yields the size of each part that is whole with them."""
        file = self.file
        while block:
            if self.hashes is None:
                self.hashes = file.begin_hashing(self.part)
            begin, length = file.span(self.part)
            mine = block[: begin + length - self.offset]
            if self.hashes:
                file.digest.update(mine)
            _write(self.descriptor, mine, self.offset)
            self.offset, block = self.offset + len(mine), block[len(mine) :]
            if self.offset == begin + length:
                file.keep(self.part)
                if self.hashes:
                    file.end_hashing()
                self.part, self.hashes = self.part + 1, None
                yield length


def _write(descriptor: int, block: memoryview, offset: int) -> None:
    """All of a block: a disk that is nearly full takes the beginning of one without an error."""
    written = 0
    while written < len(block):
        written += os.pwrite(descriptor, block[written:], offset + written)
