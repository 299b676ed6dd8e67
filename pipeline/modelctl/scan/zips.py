"""The members of a zip archive, and all in which its headers disagree.

Every local header is compared with the directory's entry, and the members have to lie one behind the other, from the
first byte of the file to the directory: what the directory hides would be somewhere between.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from modelctl.scan.clamd import Readable
from modelctl.scan.content import Extent, Packed, UnreadableError
from modelctl.scan.decoders import STORED, decode_method
from modelctl.scan.zip_directory import ZIP64_EXTRA, Directory, Entry, Oddity, extra_fields, read_directory

LOCAL, DESCRIPTOR = b"PK\3\4", b"PK\7\x08"
_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13
_DESCRIPTOR_FLAG = 1 << 3
_FULL32 = 0xFFFFFFFF
_LEAVES = re.compile(r"^[/\\]|^[A-Za-z]:|(^|[/\\])\.\.([/\\]|$)|\\|\0")
_USUAL_EXTRA_BYTES = 68
"""PyTorch pads its local headers with an extra field, so that each tensor begins at a multiple of 64 bytes."""
MAX_ODDITIES = 20


@dataclass(frozen=True, kw_only=True)
class ZipMember:
    """A member. Its content is a part of the archive's file when it is stored."""

    name: str
    content: Extent | Packed
    entry: Entry


def read_zip(extent: Extent, count: Callable[[], None]) -> Iterator[ZipMember | Oddity]:
    """All that is odd about the archive, then its members in the directory's order.

    `count` is called for each member and may raise to stop. Raises `UnreadableError` when there is no directory.
    """
    directory = read_directory(extent, count)
    places = {id(entry): _place(extent, entry, directory) for entry in directory.entries}
    _names(directory)
    _layout(directory, [place for place in places.values() if place is not None])
    yield from _shortened(directory.oddities)
    for entry in directory.entries:
        place = places[id(entry)]
        if place is None or (entry.raw_name.endswith(b"/") and not entry.size and not entry.packed_size):
            continue
        if entry.flags & _ENCRYPTED:
            yield Oddity(rule="archive", detail=f"member {entry.name!a} can't be read: it is encrypted")
            continue
        part = extent.part(place.data, entry.packed_size)
        try:
            yield ZipMember(name=entry.name, content=_content(part, entry.method), entry=entry)
        except UnreadableError as error:
            yield Oddity(rule="archive", detail=f"member {entry.name!a} can't be read: {error}")


def checked(stream: Readable, entry: Entry) -> Readable:
    """A reader of the same bytes that raises `UnreadableError` at the end when they are not what the directory
    promises."""
    return _Checked(stream, entry)


def _content(part: Extent, method: int) -> Extent | Packed:
    if method == STORED:
        return part
    decode_method(method, part.open())
    return Packed(lambda: decode_method(method, part.open()))


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a member lies: its header from `start`, its bytes from `data`, all of it to `end`."""

    name: str
    start: int
    data: int
    end: int


def _place(extent: Extent, entry: Entry, directory: Directory) -> _Place | None:
    """Compare the local header with the entry; None, and a note, when there is none."""
    label = ascii(entry.name)
    usual = 30 + len(entry.raw_name) + _USUAL_EXTRA_BYTES
    head = extent.peek(entry.offset, usual) if entry.offset >= 0 else b""
    if len(head) < 30 or head[:4] != LOCAL:
        directory.oddities.append(Oddity(rule="archive", detail=f"member {label} has no header at {entry.offset}"))
        return None
    flags, method = struct.unpack_from("<2H", head, 6)
    crc, packed_size, size, name_length, extra_length = struct.unpack_from("<3L2H", head, 14)
    rest = head[30 : 30 + name_length + extra_length]
    if len(rest) < name_length + extra_length:
        rest = extent.peek(entry.offset + 30, name_length + extra_length)
    name = rest[:name_length]
    if name != entry.raw_name:
        directory.odd(f"{label} is {name.decode('utf-8', 'backslashreplace')!a} in its own header")
    if (flags, method) != (entry.flags, entry.method):
        directory.odd(
            f"{label} has flags {entry.flags:#x} and method {entry.method} in the directory, {flags:#x} and {method} "
            "in its own header"
        )
    fields = extra_fields(rest[name_length:])
    for number, content in fields or ():
        if number == ZIP64_EXTRA and len(content) >= 16 and _FULL32 in (size, packed_size):
            size, packed_size = struct.unpack_from("<2Q", content)
    promised = (entry.crc, entry.packed_size, entry.size)
    later = bool(flags & _DESCRIPTOR_FLAG)
    if (crc, packed_size, size) != promised and not (later and not any((packed_size, size)) and crc in (0, entry.crc)):
        directory.odd(
            f"{label} has checksum and sizes {crc:#x}, {packed_size}, {size} in its own header and {promised[0]:#x}, "
            f"{promised[1]}, {promised[2]} in the directory"
        )
    if entry.method == STORED and entry.packed_size != entry.size:
        directory.odd(f"{label} is stored and has two sizes, {entry.packed_size} and {entry.size}")
    data = entry.offset + 30 + len(rest)
    end = data + entry.packed_size
    if end > directory.start:
        directory.oddities.append(Oddity(rule="archive", detail=f"member {label} is longer than the archive"))
        return None
    if later:
        end += _descriptor(extent, end, entry, directory)
    return _Place(name=label, start=entry.offset, data=data, end=end)


def _descriptor(extent: Extent, at: int, entry: Entry, directory: Directory) -> int:
    """The length of the checksum and sizes behind a member's bytes: with or without a mark, 4 or 8 bytes a size."""
    found = extent.peek(at, 24)
    for mark in (DESCRIPTOR, b""):
        for layout in ("<LLL", "<LQQ"):
            try:
                wanted = mark + struct.pack(layout, entry.crc, entry.packed_size, entry.size)
            except struct.error:
                continue
            if found.startswith(wanted):
                return len(wanted)
    directory.odd(f"{entry.name!a} has checksum and sizes behind it that are not the directory's")
    return 0


def _names(directory: Directory) -> None:
    """PyTorch's reader makes no difference between upper and lower case."""
    names = Counter(entry.raw_name.lower() for entry in directory.entries)
    for name, times in names.items():
        if times > 1:
            directory.odd(f"{times} members are named {name.decode('utf-8', 'backslashreplace')!a}")
    for entry in directory.entries:
        if _LEAVES.search(entry.name) or not entry.raw_name:
            detail = f"the name {entry.name!a} leads out of the folder it is unpacked in"
            directory.oddities.append(Oddity(rule="archive-path", detail=detail))


def _layout(directory: Directory, places: list[_Place]) -> None:
    places.sort(key=lambda place: (place.start, place.end))
    if not places:
        if directory.start and not directory.entries:
            directory.odd(f"{directory.start} bytes before the directory belong to no member")
        return
    if places[0].start:
        directory.odd(f"{places[0].start} bytes before the first member belong to none")
    for one, two in pairwise(places):
        if two.start < one.end:
            directory.odd(f"{one.name} and {two.name} overlap")
        elif two.start > one.end:
            directory.odd(f"{two.start - one.end} bytes behind {one.name} belong to no member")
    last = max(place.end for place in places)
    if last != directory.start:
        directory.odd(f"{directory.start - last} bytes before the directory belong to no member")


def _shortened(oddities: list[Oddity]) -> Iterator[Oddity]:
    yield from oddities[:MAX_ODDITIES]
    if len(oddities) > MAX_ODDITIES:
        yield Oddity(rule="archive-ambiguous", detail=f"and {len(oddities) - MAX_ODDITIES} more of that kind")


class _Checked:
    def __init__(self, stream: Readable, entry: Entry) -> None:
        self._stream = stream
        self._entry = entry
        self._crc = 0
        self._size = 0

    def read(self, size: int, /) -> bytes:
        part = self._stream.read(size)
        self._crc = zlib.crc32(part, self._crc)
        self._size += len(part)
        if not part and (self._crc, self._size) != (self._entry.crc, self._entry.size):
            raise UnreadableError(
                f"its {self._size} bytes with checksum {self._crc:#010x} are not the {self._entry.size} with "
                f"{self._entry.crc:#010x} that the directory promises"
            )
        return part
