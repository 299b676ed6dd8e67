"""Bytes to be looked into: part of a file, read where it lies, or the output of a decoder that can be started again.

A member that is stored in an archive is a view of the archive's own file, so that it needs neither memory nor
temporary space. A packed one is decoded as it is read; going back decodes it again. Only what has to be read here and
there is written to a temporary file, by `to_extent`.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from modelctl.errors import CannotDecideError
from modelctl.scan.clamd import Readable

TAIL_BYTES = 65_557
"""The end record of a zip lies this far from the end at most: 22 bytes and a comment of 65,535."""
CHUNK_BYTES = 1 << 20
_BUFFER_BYTES = 32 << 10
GLANCE_BYTES = 4 << 10
"""The start of a content, which is kept when it has been looked at: formats are told apart by it."""
_SMALL_BYTES = 256 << 10
"""What is read at once: most pickles and configurations are shorter."""


class UnreadableError(Exception):
    """An archive, or one of its members, that can't be looked into; the message says why."""


class Content(Protocol):
    """Bytes that can be read more than once."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    def open(self) -> BinaryIO:
        """A reader that stands at the start."""

    def peek(self, start: int, size: int) -> bytes:
        """At most `size` bytes from `start`, fewer at the end."""

    def tail(self) -> bytes:
        """The last `TAIL_BYTES` of it, or all."""


@dataclass(frozen=True, kw_only=True)
class Extent:
    """`size` bytes from `start` of an open file, which stays open as long as this is in use."""

    file: BinaryIO
    start: int
    size: int
    _head: list[bytes] = field(default_factory=list, init=False, repr=False, compare=False)
    """The first bytes, once they have been looked at: everything that tells formats apart looks at them."""

    @classmethod
    def of_file(cls, file: BinaryIO) -> Extent:
        """All of an open file."""
        return cls(file=file, start=0, size=os.fstat(file.fileno()).st_size)

    def part(self, start: int, size: int) -> Extent:
        """Bytes of it. Raises `UnreadableError` for what is outside."""
        if start < 0 or size < 0 or start + size > self.size:
            raise UnreadableError(f"bytes {start} to {start + size} are outside of its {self.size} bytes")
        return Extent(file=self.file, start=self.start + start, size=size)

    def peek(self, start: int, size: int) -> bytes:
        """See `Content`."""
        size = max(0, min(size, self.size - start))
        if start + size > GLANCE_BYTES:
            return os.pread(self.file.fileno(), size, self.start + start) if size else b""
        if not self._head:
            self._head.append(os.pread(self.file.fileno(), min(GLANCE_BYTES, self.size), self.start))
        return self._head[0][start : start + size]

    def open(self) -> BinaryIO:
        """See `Content`."""
        if self.size <= _SMALL_BYTES:
            return io.BytesIO(self.peek(0, self.size))
        return io.BufferedReader(self.raw(), _BUFFER_BYTES)

    def raw(self) -> io.RawIOBase:
        """The same without a buffer."""
        return _ExtentReader(self)

    def tail(self) -> bytes:
        """See `Content`."""
        start = max(0, self.size - TAIL_BYTES)
        return self.peek(start, self.size - start)


class Packed:
    """The output of a decoder, which `decode` starts from the beginning.

    Size and tail are known when `measure` has been read to its end.
    """

    def __init__(self, decode: Callable[[], Readable]) -> None:
        self.size = 0
        self._decode = decode
        self._head = b""
        self._tail = b""

    def measure(self, count: Callable[[int], None]) -> Readable:
        """A reader of all of it; `count` is told the bytes of each piece, and may raise to stop a bomb."""
        return _Measured(self, self._decode(), count)

    def open(self) -> BinaryIO:
        """See `Content`. Where the decoder fails, the content ends: `measure` has raised the reason."""
        return io.BufferedReader(_Rewindable(self._decode, self.size), _BUFFER_BYTES)

    def peek(self, start: int, size: int) -> bytes:
        """See `Content`."""
        size = max(0, min(size, self.size - start))
        if start + size <= len(self._head):
            return self._head[start : start + size]
        with self.open() as stream:
            stream.seek(start)
            return stream.read(size)

    def tail(self) -> bytes:
        """See `Content`."""
        return self._tail

    def _add(self, part: bytes) -> None:
        if len(self._head) < _BUFFER_BYTES:
            self._head += part[: _BUFFER_BYTES - len(self._head)]
        self.size += len(part)
        self._tail = (self._tail + part)[-TAIL_BYTES:]


def to_extent(content: Content, *, scratch: Path) -> Extent:
    """The content as part of a file: as it is, or written to an unnamed temporary file in `scratch`.

    Raises `CannotDecideError` when there is no space for it.
    """
    if isinstance(content, Extent):
        return content
    file = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 - it lives as long as the extent
    try:
        with content.open() as stream:
            while chunk := stream.read(CHUNK_BYTES):
                file.write(chunk)
        file.flush()
    except OSError as error:
        file.close()
        raise CannotDecideError(f"cannot unpack to {scratch}: {error.strerror}", remedy="free disk space") from error
    return Extent.of_file(file)


class _Positioned(io.RawIOBase):
    """A raw reader of `size` bytes with a position."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        position = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence] + offset
        if position < 0:
            raise ValueError(f"position {position} is before the start")
        self._position = position
        return position


class _ExtentReader(_Positioned):
    """Reads at a position of its own, so that several readers and threads may share the file."""

    def __init__(self, extent: Extent) -> None:
        super().__init__(extent.size)
        self._extent = extent

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        extent = self._extent
        size = max(0, min(len(buffer), extent.size - self._position))
        got = os.preadv(extent.file.fileno(), [buffer[:size]], extent.start + self._position) if size else 0
        self._position += got
        return got


class _Rewindable(_Positioned):
    """A decoder's output with a position: forward by reading on, back by starting again."""

    def __init__(self, decode: Callable[[], Readable], size: int) -> None:
        super().__init__(size)
        self._decode = decode
        self._stream: Readable | None = None
        self._reached = 0

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        wanted = min(len(buffer), self._size - self._position)
        if wanted <= 0:
            return 0
        if self._stream is None or self._position < self._reached:
            self._stream, self._reached = self._decode(), 0
        try:
            while self._reached < self._position:
                skipped = self._stream.read(min(CHUNK_BYTES, self._position - self._reached))
                if not skipped:
                    return 0
                self._reached += len(skipped)
            part = self._stream.read(wanted)
        except UnreadableError:
            return 0
        buffer[: len(part)] = part
        self._reached += len(part)
        self._position = self._reached
        return len(part)


class _Measured:
    """Counts a decoder's output and keeps its end."""

    def __init__(self, packed: Packed, stream: Readable, count: Callable[[int], None]) -> None:
        self._packed = packed
        self._stream = stream
        self._count = count

    def read(self, size: int, /) -> bytes:
        part = self._stream.read(size)
        self._count(len(part))
        self._packed._add(part)
        return part
