"""Streams of any length through clamd: in one piece up to the window's size, in overlapping windows beyond it.

clamd takes 2 GiB at most, and says OK for what it did not look at. Windows find every signature of a body that is
shorter than the overlap. What they can't match, so that a report has to name files scanned like that: hashes of the
whole file; signatures anchored at an offset behind the first window, or counted from the end and longer than the last;
an archive's members, whose directory lies in another window (they are scanned one by one instead).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from modelctl.scan.clamd import TRUSTED_SCAN_S, Clamd, Clean, Found, NotScanned, Readable, ScanReply

WINDOW_BYTES = 512 << 20
OVERLAP_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Windows:
    """How long a window is and how far two of them overlap, in bytes."""

    size_bytes: int = WINDOW_BYTES
    overlap_bytes: int = OVERLAP_BYTES
    trusted_scan_s: float = TRUSTED_SCAN_S
    """See `Clamd.scan`."""

    def __post_init__(self) -> None:
        if not 0 < self.overlap_bytes <= self.size_bytes // 2:
            raise ValueError("the overlap is to be shorter than half a window")


@dataclass(frozen=True, kw_only=True)
class Scanned:
    """What clamd said of a stream: `reply` is the first that is not clean, at `offset` bytes the window it is about
    began."""

    reply: ScanReply
    offset: int
    size_bytes: int
    """Bytes of the stream that were read, each counted once."""
    windows: int
    found_in: int
    """Windows in which a signature was found."""


def scan_stream(
    clamd: Clamd, stream: Readable, *, windows: Windows, advance: Callable[[float], None] = lambda _: None
) -> Scanned:
    """Scan a stream to its end, whatever is found on the way, or to the first window that clamd did not look at.
    Raises `CannotDecideError`, and `OSError` of the stream."""
    carried, fresh, offset, count, found_in = b"", 0, 0, 0, 0
    first: ScanReply = Clean()
    first_offset = 0
    while True:
        window = _Window(stream, carried, windows, advance)
        reply = clamd.scan(window, trusted_scan_s=windows.trusted_scan_s)
        count += 1
        found_in += isinstance(reply, Found)
        fresh += window.fresh_bytes
        if isinstance(first, Clean) and not isinstance(reply, Clean):
            first, first_offset = reply, offset
        ahead = b"" if isinstance(reply, NotScanned) or window.at_end else stream.read(1)
        if not ahead:
            return Scanned(reply=first, offset=first_offset, size_bytes=fresh, windows=count, found_in=found_in)
        fresh += 1
        advance(1)
        carried = bytes(window.tail) + ahead
        offset = fresh - len(carried)


class _Window:
    """One window as a file: what is carried over from the one before, then fresh bytes. Keeps its own last bytes."""

    def __init__(self, stream: Readable, carried: bytes, windows: Windows, advance: Callable[[float], None]) -> None:
        self.fresh_bytes = 0
        self.at_end = False
        self.tail = bytearray()
        self._stream = stream
        self._carried = carried
        self._left = windows.size_bytes
        self._overlap = windows.overlap_bytes
        self._advance = advance

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes of the window."""
        wanted = min(size, self._left)
        if self._carried:
            part, self._carried = self._carried[:wanted], self._carried[wanted:]
        elif wanted:
            part = self._stream.read(wanted)
            self.fresh_bytes += len(part)
            self._advance(len(part))
            self.at_end = not part
        else:
            part = b""
        self._left -= len(part)
        self.tail += part
        del self.tail[: -self._overlap]
        return part
