"""The directory of a zip archive, read strictly: all that two readers might understand differently is told.

Python's zipfile, the C++ of PyTorch (miniz) and streaming readers look at different copies of a name, a size or an
offset, and at different end records. Where the copies agree and every byte of the file belongs to one member or to the
directory, all of them see the same archive. Format: PKWARE's APPNOTE 6.3.10.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from modelctl.scan.content import TAIL_BYTES, Extent, UnreadableError

ZipRule = Literal["archive", "archive-ambiguous", "archive-path"]

END = b"PK\5\6"
CENTRAL = b"PK\1\2"
ZIP64_EXTRA, UNICODE_PATH_EXTRA = 1, 0x7075
UTF8_FLAG = 1 << 11
ZIP64_LOCATOR = b"PK\6\7"
_ZIP64_END = b"PK\6\6"
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF


@dataclass(frozen=True, kw_only=True)
class Oddity:
    """Something about an archive that is a reason to refuse it."""

    rule: ZipRule
    detail: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the directory. `offset` is that of the local header, from the start of the file."""

    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed_size: int
    size: int
    offset: int

    @property
    def name(self) -> str:
        """As Python's zipfile decodes it; what is no UTF-8 is escaped."""
        coding = "utf-8" if self.flags & UTF8_FLAG else "cp437"
        return self.raw_name.decode(coding, "backslashreplace")


@dataclass(kw_only=True)
class Directory:
    """All entries in the directory's order; it lies at `start` of the file."""

    start: int
    entries: list[Entry] = field(default_factory=list)
    oddities: list[Oddity] = field(default_factory=list)

    def odd(self, detail: str) -> None:
        """Note something that readers may take differently."""
        self.oddities.append(Oddity(rule="archive-ambiguous", detail=detail))


@dataclass(frozen=True, kw_only=True)
class _End:
    """What the end records say; `at` is where the first of them begins."""

    at: int
    members: int
    directory_size: int
    directory_offset: int


def read_directory(extent: Extent, count: Callable[[], None]) -> Directory:
    """The directory of a zip; `count` is called for each entry and may raise to stop. Raises `UnreadableError`."""
    directory = Directory(start=0)
    end = _read_end(extent, directory)
    directory.start = end.at - end.directory_size
    if directory.start < 0:
        raise UnreadableError("broken zip archive: its directory is longer than the file")
    shift = directory.start - end.directory_offset
    if shift:
        directory.odd(f"the directory is {shift} bytes away from where the end record says")
    place = 0
    with extent.part(directory.start, end.directory_size).open() as stream:
        while place < end.directory_size:
            count()
            head = stream.read(46)
            if len(head) < 46 or head[:4] != CENTRAL:
                raise UnreadableError(f"broken zip archive: no directory entry at byte {directory.start + place}")
            lengths = struct.unpack_from("<3H", head, 28)
            rest = stream.read(sum(lengths))
            if len(rest) != sum(lengths):
                raise UnreadableError("broken zip archive: the directory is cut off")
            directory.entries.append(_entry(head, rest, lengths, shift, directory))
            place += 46 + len(rest)
    if len(directory.entries) != end.members:
        directory.odd(f"the end record counts {end.members} members, the directory has {len(directory.entries)}")
    return directory


def _read_end(extent: Extent, directory: Directory) -> _End:
    start = max(0, extent.size - TAIL_BYTES)
    tail = extent.tail()
    found = find_end(tail)
    if found < 0:
        raise UnreadableError("broken zip archive: its directory is missing")
    disk, first_disk, here, members, size, offset, comment = struct.unpack_from("<4H2LH", tail, found + 4)
    behind = len(tail) - found - 22
    if comment != behind:
        directory.odd(f"{behind} bytes are behind the end record, whose comment has {comment}")
    if _other_end(tail, found):
        directory.odd("it has two end records")
    at = start + found
    zip64 = _read_zip64(extent, at, directory)
    if zip64 is not None:
        for name, short, full, long in (
            ("members", members, _FULL16, zip64.members),
            ("bytes of the directory", size, _FULL32, zip64.directory_size),
            ("as the directory's offset", offset, _FULL32, zip64.directory_offset),
        ):
            if short not in (full, long):
                directory.odd(f"one end record says {short} {name}, the other {long}")
        return zip64
    if (disk, first_disk) != (0, 0) or here != members:
        directory.odd("it says that it is one part of several")
    return _End(at=at, members=members, directory_size=size, directory_offset=offset)


def find_end(tail: bytes) -> int:
    """Where the last end record begins, -1 when there is none. Two of its four bytes are looked for, which is three
    times as fast."""
    place = tail.rfind(END[2:], 0, len(tail) - 18)
    while place >= 0 and tail[place - 2 : place] != END[:2]:
        place = tail.rfind(END[2:], 0, place)
    return place - 2 if place >= 0 else -1


def _other_end(tail: bytes, found: int) -> bool:
    """Whether an earlier record, whose comment reaches the end of the file, may be taken for the end record too."""
    place = tail.find(END)
    while 0 <= place < found:
        if place + 22 + int.from_bytes(tail[place + 20 : place + 22], "little") == len(tail):
            return True
        place = tail.find(END, place + 1)
    return False


def _read_zip64(extent: Extent, at: int, directory: Directory) -> _End | None:
    """The end record for large archives: 56 bytes, and 20 that say where they are, in front of the usual one."""
    if at < 20 or extent.peek(at - 20, 4) != ZIP64_LOCATOR:
        return None
    disk, where, disks = struct.unpack("<LQL", extent.peek(at - 16, 16))
    record = extent.peek(at - 76, 56) if at >= 76 else b""
    if record[:4] != _ZIP64_END:
        raise UnreadableError("broken zip archive: the second end record is not in front of its locator")
    length, _, _, own_disk, first_disk, here, members, size, offset = struct.unpack_from("<Q2H2L4Q", record, 4)
    shift = at - 76 - size - offset
    if where + shift != at - 76:
        directory.odd(f"the locator says byte {where} for the second end record, which is at {at - 76}")
    if (disk, own_disk, first_disk) != (0, 0, 0) or disks > 1 or length != 44 or here != members:
        directory.odd("its second end record is not the usual one")
    return _End(at=at - 76, members=members, directory_size=size, directory_offset=offset)


def _entry(head: bytes, rest: bytes, lengths: tuple[int, ...], shift: int, directory: Directory) -> Entry:
    flags, method = struct.unpack_from("<2H", head, 8)
    crc, packed_size, size = struct.unpack_from("<3L", head, 16)
    disk, _, _, offset = struct.unpack_from("<2HLL", head, 34)
    name, extra = rest[: lengths[0]], rest[lengths[0] : lengths[0] + lengths[1]]
    entry = Entry(raw_name=name, flags=flags, method=method, crc=crc, packed_size=packed_size, size=size, offset=offset)
    label = ascii(entry.name)
    fields = extra_fields(extra)
    if fields is None:
        directory.odd(f"{label} has extra fields that do not add up")
        fields = []
    wide = [content for number, content in fields if number == ZIP64_EXTRA]
    for number, content in fields:
        if number == UNICODE_PATH_EXTRA and content[5:] != name:
            directory.odd(f"{label} has a second name, {content[5:].decode('utf-8', 'replace')!a}")
    numbers = [value == _FULL32 for value in (size, packed_size, offset)]
    need = 8 * sum(numbers) + (4 if disk == _FULL16 else 0)
    if len(wide) > 1 or (wide and len(wide[0]) != need):
        directory.odd(f"{label} has sizes for large members that do not fit its small ones")
    values = list(struct.unpack(f"<{len(wide[0]) // 8}Q", wide[0][: len(wide[0]) // 8 * 8])) if wide else []
    size, packed_size, offset = (
        values.pop(0) if large and values else value
        for large, value in zip(numbers, (size, packed_size, offset), strict=True)
    )
    if disk not in (0, _FULL16):
        directory.odd(f"{label} is said to be in another part of the archive")
    return replace(entry, packed_size=packed_size, size=size, offset=offset + shift)


def extra_fields(extra: bytes) -> list[tuple[int, bytes]] | None:
    """The extra fields of a header by number; None when their lengths do not add up."""
    fields, place = [], 0
    while place + 4 <= len(extra):
        number, length = struct.unpack_from("<2H", extra, place)
        if place + 4 + length > len(extra):
            return None
        fields.append((number, extra[place + 4 : place + 4 + length]))
        place += 4 + length
    return fields if place == len(extra) else None
