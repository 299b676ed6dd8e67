"""Streams of any length through clamd: in one piece up to the window's size, in overlapping windows beyond it.

clamd takes 2 GiB at most, and says OK for what it did not look at. Windows find every signature of a body that is
shorter than the overlap; signatures of a whole file's hash, or anchored at an offset, are lost in them, so a report
has to name files scanned like that.

`prove` shows that the limits hold on the clamd at hand: the EICAR test file is found, and found at the very end of a
stream as long as the longest one that will be sent.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from modelctl.errors import CannotDecideError
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


def scan_stream(
    clamd: Clamd, stream: Readable, *, windows: Windows, advance: Callable[[float], None] = lambda _: None
) -> Scanned:
    """Scan a stream to its end, or to the first reply that is not clean. Raises `CannotDecideError`, and `OSError` of
    the stream."""
    carried, fresh, offset, count = b"", 0, 0, 0
    while True:
        window = _Window(stream, carried, windows, advance)
        reply = clamd.scan(window, trusted_scan_s=windows.trusted_scan_s)
        count += 1
        fresh += window.fresh_bytes
        ahead = b"" if not isinstance(reply, Clean) or window.at_end else stream.read(1)
        if not ahead:
            return Scanned(reply=reply, offset=offset, size_bytes=fresh, windows=count)
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


def eicar() -> bytes:
    """The EICAR anti-virus test file, put together here so that no file of this project is taken for it."""
    return b"X5O!P%@AP[4\\PZX54(P^)7CC)7}$" + b"-".join((b"EICAR", b"STANDARD", b"ANTIVIRUS", b"TEST")) + b"-FILE!$H+H*"


def prove(clamd: Clamd, *, size_bytes: int, windows: Windows, advance: Callable[[float], None] = lambda _: None) -> str:
    """Show that clamd detects, up to the end of a stream of `size_bytes` (capped at a window). Returns the
    signature's name.

    Raises `CannotDecideError` that names the limit to raise when it does not.
    """
    reply = clamd.scan(io.BytesIO(eicar()))
    if not isinstance(reply, Found):
        raise CannotDecideError(
            f"clamd at {clamd.address} does not find the EICAR test file ({_words(reply)}): is its database broken?",
            remedy="update its database (freshclam) and restart it",
        )
    length = min(size_bytes, windows.size_bytes)
    at_end = clamd.scan(EndMarked(length), advance=advance, trusted_scan_s=windows.trusted_scan_s)
    if not isinstance(at_end, Found):
        raise CannotDecideError(
            f"clamd at {clamd.address} does not look at the end of a stream of {length} bytes ({_words(at_end)})",
            remedy="raise StreamMaxLength, MaxFileSize, MaxScanSize and MaxScanTime in clamd.conf and set "
            "AlertExceedsMax yes, or lower malware.window_mib in the policy",
        )
    return reply.signature


class EndMarked:
    """A stream of `length` bytes (or a little more when that is too short) whose last bytes carry the EICAR test
    file.

    It is a zip archive: a first member, a gap of zeros, the test file as the last member and the directory behind it.
    So the test file is a file of its own to clamd, as signature databases want it, and it is found only when the
    whole stream was taken.
    """

    def __init__(self, length: int) -> None:
        first, second = _Member(b"start", b"start"), _Member(b"marker", eicar())
        directory_bytes = len(first.directory(0)) + len(second.directory(0)) + 22
        gap = max(0, length - len(first.content) - len(second.content) - directory_bytes)
        at = len(first.content) + gap
        directory = first.directory(0) + second.directory(at)
        end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, len(directory), at + len(second.content), 0)
        self._parts: list[bytes] = [first.content, second.content + directory + end]
        self._gap = gap

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes of the gap, or one of the parts around it (under 1 KiB) whole."""
        if len(self._parts) == 1 and self._gap:
            amount = min(size, self._gap)
            self._gap -= amount
            return bytes(amount)
        return self._parts.pop(0) if self._parts else b""


class _Member:
    """A stored zip member: `content` is its local header and data."""

    def __init__(self, name: bytes, data: bytes) -> None:
        self._name = name
        self._common = struct.pack("<5H3L2H", 20, 0, 0, 0, 0x21, zlib.crc32(data), len(data), len(data), len(name), 0)
        self.content = b"PK\3\4" + self._common + name + data

    def directory(self, offset: int) -> bytes:
        return b"PK\1\2" + struct.pack("<H", 20) + self._common + struct.pack("<3H2L", 0, 0, 0, 0, offset) + self._name


def _words(reply: ScanReply) -> str:
    match reply:
        case NotScanned(reason=reason):
            return reason
        case Found(signature=signature):
            return f"it found {signature}"
        case Clean():
            return "it said OK"
