"""What is packed inside a file: members of zip and tar archives, the content of gzip, bzip2, xz, lzma and zlib
streams.

A file is taken for what its bytes say. Members are unpacked to a scratch folder one after the other, within a budget
that is checked before and while unpacking; archives that can't be opened here, or not to their end, are `Unreadable`
with the reason, never left out.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from modelctl.errors import CannotDecideError
from modelctl.scan.clamd import Readable

Kind = Literal["zip", "tar", "gzip", "bzip2", "xz", "lzma", "zlib"]

_CHUNK_BYTES = 1 << 20
_ZIP_END = b"PK\5\6"
_ZIP_END_REACH = 65557
"""A zip's end record is at most this far from the end of the file: 22 bytes and a comment of 65535."""

_CLOSED = (
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "RAR"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "LZ4"),
    (b"LZIP\x01", "lzip"),
    (b"\x1f\x9d", "compress"),
    (b"\x1f\xa0", "compress"),
    (b"MSCF\0\0\0\0", "CAB"),
    (b"!<arch>\n", "ar"),
    (b"070701", "cpio"),
    (b"070707", "cpio"),
    (b"xar!\0", "xar"),
    (b"hsqs", "squashfs"),
)
"""Containers that are recognised and not opened here."""

_BROKEN = (
    OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, ValueError,
    NotImplementedError, IndexError,
)  # fmt: skip
"""What the standard library raises for broken containers; the last two for a zip that asks for a later version of the
format, and for a member whose name is empty."""


class UnreadableError(Exception):
    """An archive, or one of its members, that can't be looked into; the message says why."""


class BudgetError(UnreadableError):
    """An archive that unpacks to more than it may."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """One thing unpacked from an archive: a file in the scratch folder that lives until the next is asked for."""

    name: str
    location: Path


class Budget:
    """What one top-level file may still unpack to, over all its levels."""

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
        self._bytes -= amount
        if self._bytes < 0:
            raise BudgetError("it unpacks to more bytes than the limits (malware.max_ratio, malware.max_unpacked_gib)")


def identify(location: Path) -> Kind | None:
    """Which kind of container a file is, by its bytes, or None. Raises `UnreadableError` for a kind that is not
    opened here."""
    with location.open("rb") as stream:
        head = stream.read(1024)
        if _is_zip(stream, head):
            return "zip"
    for magic, name in _CLOSED:
        if head.startswith(magic):
            raise UnreadableError(f"a {name} archive, which is not opened here")
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if re.match(rb"BZh[1-9](1AY&SY|\x17\x72\x45\x38\x50\x90)", head):
        return "bzip2"
    if head.startswith(b"\xfd7zXZ\0"):
        return "xz"
    if _is_tar(head):
        return "tar"
    if _is_lzma(head):
        return "lzma"
    if len(head) > 2 and head[0] & 15 == 8 and head[0] >> 4 <= 7 and not int.from_bytes(head[:2], "big") % 31:
        return "zlib" if _decodes(zlib.decompressobj(), head) else None
    return None


def unpack(location: Path, kind: Kind, *, budget: Budget, scratch: Path) -> Iterator[Member | UnreadableError]:
    """The members of a container, one at a time; a member that can't be read comes as the error that says why.

    Raises `BudgetError` when the budget is spent, `UnreadableError` when the container itself is broken,
    `CannotDecideError` when the scratch folder is full.
    """
    try:
        if kind == "zip":
            yield from _zip_members(location, budget, scratch)
        elif kind == "tar":
            yield from _tar_members(location, budget, scratch)
        else:
            with _opened(location, kind) as stream, _spooled(stream, budget, scratch) as unpacked:
                yield Member(name="content", location=unpacked)
    except _BROKEN as error:
        raise UnreadableError(f"a broken {kind} archive: {error}") from error


def _zip_members(location: Path, budget: Budget, scratch: Path) -> Iterator[Member | UnreadableError]:
    with zipfile.ZipFile(location) as archive:
        for info in archive.infolist():
            budget.member()
            if info.is_dir() and not info.file_size:
                continue
            try:
                with archive.open(info) as stream, _spooled(stream, budget, scratch) as unpacked:
                    yield Member(name=info.filename, location=unpacked)
            except (RuntimeError, NotImplementedError, zipfile.BadZipFile, EOFError, zlib.error) as error:
                # RuntimeError: encrypted; NotImplementedError: a compression that the standard library lacks
                yield UnreadableError(f"member {info.filename!r} can't be read: {error}")


def _tar_members(location: Path, budget: Budget, scratch: Path) -> Iterator[Member | UnreadableError]:
    with tarfile.open(location, "r:") as archive:
        for info in archive:
            budget.member()
            if info.isdir():
                continue
            stream = archive.extractfile(info) if info.isreg() else None
            if stream is None:
                yield UnreadableError(f"member {info.name!r} is no plain file")
                continue
            with _spooled(stream, budget, scratch) as unpacked:
                yield Member(name=info.name, location=unpacked)


@contextmanager
def _opened(location: Path, kind: Kind) -> Iterator[Readable]:
    with location.open("rb") as raw:
        match kind:
            case "gzip":
                yield gzip.GzipFile(fileobj=raw)
            case "bzip2":
                yield bz2.BZ2File(raw)
            case "xz" | "lzma":
                with lzma.LZMAFile(raw, format=lzma.FORMAT_XZ if kind == "xz" else lzma.FORMAT_ALONE) as unpacked:
                    yield unpacked
            case _:
                yield _ZlibFile(raw)


class _ZlibFile:
    """A zlib stream as a file, unpacked in bounded pieces."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._state = zlib.decompressobj()

    def read(self, size: int, /) -> bytes:
        while not self._state.eof:
            packed = self._state.unconsumed_tail or self._raw.read(64 << 10)
            if not packed:
                raise EOFError("the stream ends early")
            content = self._state.decompress(packed, size)
            if content:
                return content
        return b""


@contextmanager
def _spooled(stream: Readable, budget: Budget, scratch: Path) -> Iterator[Path]:
    with tempfile.NamedTemporaryFile(dir=scratch) as file:
        while chunk := stream.read(_CHUNK_BYTES):
            budget.unpacked(len(chunk))
            try:
                file.write(chunk)
                file.flush()
            except OSError as error:
                raise CannotDecideError(
                    f"cannot unpack to {scratch}: {error.strerror}", remedy="free disk space"
                ) from error
        yield Path(file.name)


def _is_zip(stream: BinaryIO, head: bytes) -> bool:
    if head.startswith((b"PK\3\4", _ZIP_END, b"PK\7\x08")):
        return True
    size = stream.seek(0, 2)
    stream.seek(max(0, size - _ZIP_END_REACH))
    return _ZIP_END in stream.read() and zipfile.is_zipfile(stream)


def _is_tar(head: bytes) -> bool:
    header = head[:512]
    if len(header) < 512 or not any(header):
        return False
    field = header[148:156].strip(b" \0")
    if not re.fullmatch(rb"[0-7]+", field):
        return False
    return int(field, 8) == sum(header[:148]) + 8 * 32 + sum(header[156:])


def _is_lzma(head: bytes) -> bool:
    """The format before xz has no magic number: usual properties, a plausible dictionary and size, a zero, and it
    decodes."""
    dictionary, size = int.from_bytes(head[1:5], "little"), int.from_bytes(head[5:13], "little")
    if head[:1] != b"\x5d" or head[13:14] != b"\0" or (1 << 38 <= size != (1 << 64) - 1):
        return False
    return dictionary.bit_count() == 1 and _decodes(lzma.LZMADecompressor(format=lzma.FORMAT_ALONE), head)


def _decodes(state: lzma.LZMADecompressor | zlib._Decompress, head: bytes) -> bool:
    try:
        return bool(state.decompress(head, 1 << 16))
    except (lzma.LZMAError, zlib.error):
        return False
