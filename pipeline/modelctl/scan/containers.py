"""What is packed inside a file: members of zip and tar archives, the content of gzip, bzip2, xz, lzma and zlib
streams.

A file is taken for what its bytes say. Members are read where they lie, or decoded as they are read, within a budget
that is checked before and while unpacking; archives that can't be opened here, or not to their end, are `Unreadable`
with the reason, never left out.
"""

from __future__ import annotations

import lzma
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from modelctl.scan.clamd import Readable
from modelctl.scan.content import Content, Extent, Packed, UnreadableError, to_extent
from modelctl.scan.decoders import MAX_LZMA_MEMORY, StreamKind, decode_stream
from modelctl.scan.tars import read_tar
from modelctl.scan.zip_directory import CENTRAL, END, ZIP64_LOCATOR, Entry, Oddity, find_end
from modelctl.scan.zips import LOCAL, checked, read_zip

Kind = Literal["zip", "tar"] | StreamKind

HEAD_BYTES = 1024

_CLOSED = (
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "RAR"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "LZ4"),
    (b"\x02\x21\x4c\x18", "LZ4"),
    (b"LZIP\x01", "lzip"),
    (b"\x89LZO\0", "LZO"),
    (b"\x1f\x9d", "compress"),
    (b"\x1f\xa0", "compress"),
    (b"ZF0x", "joblib's old zlib"),
    (b"MSCF\0\0\0\0", "CAB"),
    (b"!<arch>\n", "ar"),
    (b"070701", "cpio"),
    (b"070702", "cpio"),
    (b"070707", "cpio"),
    (b"xar!\0", "xar"),
    (b"hsqs", "squashfs"),
    (b"**ACE**", "ACE"),
)
"""Containers that are recognised and not opened here: the standard library has no decoder for them, and no model that
is served needs one."""
_LEAST_DICTIONARY = 4096
"""Of LZMA, in bytes, as encoders write it; decoders take less for it."""
_SKIPPABLE_ZSTD = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")


class BudgetError(UnreadableError):
    """An archive that unpacks to more than it may."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """One thing inside a container. `entry` is the zip's promise about it."""

    name: str
    content: Extent | Packed
    entry: Entry | None = None

    def first_reading(self, budget: Budget) -> Readable:
        """A reader of all of it, to be read to its end once: it counts, and measures what has to be decoded.

        Raises `BudgetError`, and `UnreadableError` for what is broken or not what the archive promises.
        """
        stream: Readable
        if self.entry is not None:
            budget.require(self.entry.size)
        if isinstance(self.content, Packed):
            stream = self.content.measure(budget.unpacked)
        else:
            budget.unpacked(self.content.size)
            stream = self.content.open()
        return stream if self.entry is None else checked(stream, self.entry)


class Budget:
    """How much may still be unpacked from one file, all levels together."""

    def __init__(self, *, unpacked_bytes: int, members: int) -> None:
        self._bytes = unpacked_bytes
        self._members = members

    def member(self) -> None:
        """Count one member. Raises `BudgetError`."""
        self._members -= 1
        if self._members < 0:
            raise BudgetError("it holds more members than the limit (malware.max_members)")

    def unpacked(self, amount: int) -> None:
        """Count unpacked bytes. Raises `BudgetError`."""
        self.require(amount)
        self._bytes -= amount

    def require(self, amount: int) -> None:
        """Raises `BudgetError` when so many bytes more would be too many: said by the archive, before it is
        unpacked."""
        if amount > self._bytes:
            raise BudgetError("it unpacks to more bytes than the limits (malware.max_ratio, malware.max_unpacked_gib)")


def identify(content: Content) -> Kind | None:
    """Which kind of container the content is, by its bytes, or None. Raises `UnreadableError` for a kind that is not
    opened here."""
    head = content.peek(0, HEAD_BYTES)
    # a tar is read as one: an archive that is its last member ends like a zip too, and what lies behind the tar is told
    tar = _is_tar(head)
    if head.startswith((LOCAL, END, b"PK\7\x08")) or (not tar and _ends_in_zip(content)):
        return "zip"
    for magic, name in _CLOSED:
        if head.startswith(magic):
            raise UnreadableError(f"a {name} archive, which is not opened here")
    if _SKIPPABLE_ZSTD.match(head):
        raise UnreadableError("a zstd or LZ4 archive, which is not opened here")
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if re.match(rb"BZh[1-9](1AY&SY|\x17\x72\x45\x38\x50\x90)", head):
        return "bzip2"
    if head.startswith(b"\xfd7zXZ\0"):
        return "xz"
    if tar:
        return "tar"
    if _is_lzma(head):
        return "lzma"
    if len(head) > 2 and head[0] & 15 == 8 and head[0] >> 4 <= 7 and not int.from_bytes(head[:2], "big") % 31:
        return "zlib" if _decoded(zlib.decompressobj(), head) is not None else None
    return None


def unpack(content: Content, kind: Kind, *, budget: Budget, scratch: Path) -> Iterator[Member | Oddity]:
    """The members of a container, one at a time; what is odd about it, or can't be read, comes as the reason to refuse.

    Raises `BudgetError` when the budget is spent, `UnreadableError` when the container itself is broken,
    `CannotDecideError` when the scratch folder is full.
    """
    if kind == "zip":
        for found in read_zip(to_extent(content, scratch=scratch), budget.member):
            if isinstance(found, Oddity):
                yield found
            else:
                yield Member(name=found.name, content=found.content, entry=found.entry)
    elif kind == "tar":
        for item in read_tar(to_extent(content, scratch=scratch), budget.member):
            yield item if isinstance(item, Oddity) else Member(name=item[0], content=item[1])
    else:
        budget.member()
        yield Member(name="content", content=Packed(lambda: decode_stream(kind, content.open())))


def _ends_in_zip(content: Content) -> bool:
    """Whether the last bytes are a zip's end record: its comment ends with the file, or a directory, or the end record
    for large archives, is in front of it."""
    tail = content.tail()
    place = find_end(tail)
    if place < 0:
        return False
    record = tail[place + 4 : place + 22]
    size, comment = int.from_bytes(record[8:12], "little"), int.from_bytes(record[16:18], "little")
    at = content.size - len(tail) + place
    if comment == len(tail) - place - 22 or tail[:place][-20:].startswith(ZIP64_LOCATOR):
        return True
    return 0 < size <= at and content.peek(at - size, 4) == CENTRAL


def _is_tar(head: bytes) -> bool:
    header = head[:512]
    if len(header) < 512 or not any(header):
        return False
    field = header[148:156].strip(b" \0")
    if not re.fullmatch(rb"[0-7]+", field):
        return False
    return int(field, 8) == sum(header[:148]) + 8 * 32 + sum(header[156:])


def _is_lzma(head: bytes) -> bool:
    """The format before xz has no magic number: usual properties, a plausible size, a zero, and it decodes.

    Whole numbers in a file look like that too, with a dictionary of no bytes, and decode to zeros. Raises
    `UnreadableError` for a dictionary that is too large.
    """
    dictionary, size = int.from_bytes(head[1:5], "little"), int.from_bytes(head[5:13], "little")
    if head[:1] != b"\x5d" or head[13:14] != b"\0" or (1 << 38 <= size != (1 << 64) - 1):
        return False
    content = _decoded(lzma.LZMADecompressor(format=lzma.FORMAT_ALONE, memlimit=MAX_LZMA_MEMORY), head)
    if content is None and dictionary > MAX_LZMA_MEMORY:
        raise UnreadableError(f"an lzma stream that asks for a dictionary of {dictionary} bytes")
    if not content:
        return False
    return dictionary >= _LEAST_DICTIONARY or content[:1] != b"\0"


def _decoded(state: lzma.LZMADecompressor | zlib._Decompress, head: bytes) -> bytes | None:
    """What the first packed bytes give; None when they are none."""
    try:
        return state.decompress(head, 1 << 16)
    except (lzma.LZMAError, zlib.error):
        return None
