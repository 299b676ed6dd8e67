"""A file that is read once, by an upload, and must turn out to be the bytes that were announced."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from modelctl.errors import RefusedError
from modelctl.model.tree import FileEntry


class CheckedReader:
    """The read that reaches the end compares size and sha256, before anything is complete on the other side.

    Raises `RefusedError` from that read (from the start for an empty file), and keeps it as `refusal`.
    """

    def __init__(self, stream: BinaryIO, entry: FileEntry, path: Path, advance: Callable[[float], None]) -> None:
        self._stream = stream
        self._entry = entry
        self._path = path
        self._advance = advance
        self._digest = hashlib.sha256()
        self._left = entry.size_bytes
        self.refusal: RefusedError | None = None
        if not self._left:
            self._compare()

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, fewer only at the end."""
        block = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._digest.update(block)
        self._left -= len(block)
        if not self._left or not block:
            self._compare()
        self._advance(len(block))
        return block

    def _compare(self) -> None:
        longer = not self._left and self._stream.read(1)
        if self._left or longer or self._digest.hexdigest() != self._entry.sha256:
            self.refusal = RefusedError(
                f"{self._path}: not the bytes that were admitted (sha256 {self._entry.sha256[:12]}…, "
                f"{self._entry.size_bytes} bytes; {os.fstat(self._stream.fileno()).st_size} bytes now)",
                remedy="find out who changed the file, then admit the release again",
            )
            raise self.refusal
