"""Proof that the clamd at hand detects, to the end of what it is sent, and says so when it stops early.

Three probes, none of them longer than a window: the EICAR test file is found; it is found at the very end of a stream
as long as the longest that will be sent; and an archive nested beyond what any clamd follows is called a limit that
was exceeded, so that an OK means "looked at" (`AlertExceedsMax`).
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Mapping

from modelctl.errors import CannotDecideError
from modelctl.scan.clamd import Clamd, Clean, Found, NotScanned, ScanReply
from modelctl.scan.windows import Windows
from modelctl.services import clamd_conf
from modelctl.services.eicar import eicar

NESTED_LEVELS = 300
"""clamd follows 100 levels at most, whatever MaxRecursion says."""


def prove(clamd: Clamd, *, size_bytes: int, windows: Windows, advance: Callable[[float], None] = lambda _: None) -> str:
    """Show that clamd detects, up to the end of a stream of `size_bytes` (capped at a window), and tells its limits.
    Returns the signature's name.

    Raises `CannotDecideError` with the lines of clamd.conf to change when it does not.
    """
    reply = clamd.scan(io.BytesIO(eicar()))
    if not isinstance(reply, Found):
        raise CannotDecideError(
            f"clamd at {clamd.address} does not find the EICAR test file ({_words(reply)}): is its database broken?",
            remedy=clamd_conf.FRESHCLAM,
        )
    length = min(size_bytes, windows.size_bytes)
    at_end = clamd.scan(EndMarked(length), advance=advance, trusted_scan_s=windows.trusted_scan_s)
    if not isinstance(at_end, Found):
        raise CannotDecideError(
            f"clamd at {clamd.address} does not look at the end of a stream of {length} bytes ({_words(at_end)})",
            remedy=lines_to_change(clamd, windows),
        )
    nested = clamd.scan(io.BytesIO(_nested()))
    if not isinstance(nested, NotScanned):
        raise CannotDecideError(
            f"clamd at {clamd.address} does not tell when it stops at a limit ({_words(nested)} of an archive nested "
            f"{NESTED_LEVELS} deep), so its OK is no proof",
            remedy=lines_to_change(clamd, windows),
        )
    return reply.signature


def lines_to_change(clamd: Clamd, windows: Windows) -> str:
    """What to write into clamd.conf, where its file is known by name and with what it says now."""
    configuration = clamd_conf.configuration_of(clamd.address)
    wanted = clamd_conf.limits(windows.size_bytes)
    if configuration is None:
        return _advice("in its clamd.conf (modelctl doctor --clamd-conf prints a whole one)", wanted, {})
    lacks = configuration.lacks(windows.size_bytes, trusted_scan_s=windows.trusted_scan_s)
    if not lacks:
        return f"restart clamd: {configuration.path} says what is wanted, and clamd runs with something else"
    return _advice(f"in {configuration.path}", lacks, configuration.options)


def _advice(where: str, lines: dict[str, str], now: Mapping[str, str]) -> str:
    changes = [f"{name} {value}" + (f"   (now {now[name]})" if name in now else "") for name, value in lines.items()]
    last = "then restart clamd; or lower malware.window_mib in the policy"
    return "\n".join((f"{where}, set", *(f"  {change}" for change in changes), last))


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
        end = _end_of([(first, 0), (second, at)], at + len(second.content))
        self._parts: list[bytes] = [first.content, second.content + end]
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


def _end_of(members: list[tuple[_Member, int]], at: int) -> bytes:
    """The directory of a zip archive and its end, for members at their offsets and itself at `at`."""
    directory = b"".join(member.directory(offset) for member, offset in members)
    return directory + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(members), len(members), len(directory), at, 0)


def _nested() -> bytes:
    """Zip in zip, `NESTED_LEVELS` deep, about 30 kB."""
    content = b"innermost"
    for _ in range(NESTED_LEVELS):
        member = _Member(b"a", content)
        content = member.content + _end_of([(member, 0)], len(member.content))
    return content


def _words(reply: ScanReply) -> str:
    match reply:
        case NotScanned(reason=reason):
            return reason
        case Found(signature=signature):
            return f"it found {signature}"
        case Clean():
            return "it said OK"
