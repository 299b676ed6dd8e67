"""A file that is read once, in parts, by an upload, and must turn out to be the bytes that were announced."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import TracebackType

from modelctl.errors import RefusedError
from modelctl.model.tree import FileEntry
from modelctl.registry.listed import other_bytes


class CheckedParts:
    """The parts of a file, in order, at least one; a context that holds the file open.

    Reading the last part raises `RefusedError` when size or sha256 are not those of the entry, so that nothing is ever
    complete on the other side.
    """

    def __init__(self, path: Path, entry: FileEntry, *, part_bytes: int) -> None:
        self._path = path
        self._entry = entry
        self._part_bytes = part_bytes
        self._digest = hashlib.sha256()
        self._left = entry.size_bytes
        self._descriptor = -1

    @property
    def count(self) -> int:
        """How many parts there are."""
        return max(1, -(-self._entry.size_bytes // self._part_bytes))

    def size_of(self, number: int) -> int:
        """Bytes of a part; the first is number 1."""
        return min(self._part_bytes, self._entry.size_bytes - (number - 1) * self._part_bytes)

    def __enter__(self) -> CheckedParts:
        self._descriptor = os.open(self._path, os.O_RDONLY)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def read(self, buffer: bytearray) -> memoryview:
        """The next part, in `buffer`, which must be large enough for it."""
        wanted = min(self._part_bytes, self._left)
        part = memoryview(buffer)[:wanted]
        have = 0
        while have < wanted and (count := os.readv(self._descriptor, [part[have:]])):
            have += count
        self._digest.update(part[:have])
        self._left -= have
        if have < wanted or not self._left:
            longer = not self._left and os.read(self._descriptor, 1)
            if self._left or longer or self._digest.hexdigest() != self._entry.sha256:
                raise self._refusal(os.fstat(self._descriptor).st_size)
        return part

    def _refusal(self, size_bytes: int) -> RefusedError:
        return other_bytes(self._path, self._entry, f"{size_bytes} bytes now")
