"""Decoders of packed bytes, each as a stream: gzip, bzip2, xz, lzma and zlib files, and the methods of zip members.

Whatever is wrong with the packed bytes is an `UnreadableError`; no decoder hands out more than it is asked for at once.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from typing import BinaryIO, Literal, Protocol

from modelctl.scan.clamd import Readable
from modelctl.scan.content import UnreadableError

StreamKind = Literal["gzip", "bzip2", "xz", "lzma", "zlib"]

STORED, _DEFLATED, _BZIP2, _LZMA = 0, 8, 12, 14
"""The methods of zip members that are opened here."""
_METHOD_NAMES = {
    1: "shrink", 6: "implode", 9: "deflate64", 20: "zstd", 93: "zstd", 95: "xz", 96: "JPEG", 97: "WavPack", 98: "PPMd",
    99: "AES",
}  # fmt: skip
"""Methods that are known and not opened."""

_PACKED_BYTES = 64 << 10
MAX_LZMA_MEMORY = 256 << 20
"""Bytes; a hostile header could ask for a dictionary of 4 GiB."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def decode_stream(kind: StreamKind, raw: BinaryIO) -> Readable:
    """The content of a packed file."""
    match kind:
        case "gzip":
            return _Guarded(gzip.GzipFile(fileobj=raw))
        case "bzip2":
            return _Members(raw, bz2.BZ2Decompressor)
        case "xz":
            return _Members(raw, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_LZMA_MEMORY))
        case "lzma":
            return _Members(raw, lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=MAX_LZMA_MEMORY))
        case "zlib":
            return _Zlib(raw, zlib.decompressobj())


def decode_method(method: int, raw: BinaryIO) -> Readable:
    """The content of a zip member. Raises `UnreadableError` for a method that is not opened here."""
    if method == STORED:
        return raw
    if method == _DEFLATED:
        return _Zlib(raw, zlib.decompressobj(-zlib.MAX_WBITS))
    if method == _BZIP2:
        return _Members(raw, bz2.BZ2Decompressor, single=True)
    if method == _LZMA:
        return _Members(raw, _zip_lzma(raw), single=True)
    name = _METHOD_NAMES.get(method)
    raise UnreadableError(f"it is packed by method {method}{f' ({name})' if name else ''}, which is not opened here")


def _zip_lzma(raw: BinaryIO) -> Callable[[], _Decompressor]:
    """The header of an LZMA member: the version, the length of the properties and the properties themselves."""
    head = raw.read(4)
    properties = raw.read(int.from_bytes(head[2:4], "little"))
    if len(properties) != 5 or properties[0] >= 225:
        raise UnreadableError("broken lzma data: its properties are not valid")
    dictionary = int.from_bytes(properties[1:5], "little")
    if dictionary > MAX_LZMA_MEMORY:
        raise UnreadableError(f"it asks for a dictionary of {dictionary} bytes")
    rest, lc = divmod(properties[0], 9)
    pb, lp = divmod(rest, 5)
    chosen = {"id": lzma.FILTER_LZMA1, "dict_size": max(dictionary, 4096), "lc": lc, "lp": lp, "pb": pb}
    return lambda: lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[chosen])


class _Guarded:
    """A decoder of the standard library; what it raises is an `UnreadableError`."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        try:
            return self._stream.read(size)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise UnreadableError(f"broken data: {error}") from error


class _Members:
    """One packed stream after the other, as xz and bzip2 files may hold; `single` for exactly one."""

    def __init__(self, raw: BinaryIO, start: Callable[[], _Decompressor], *, single: bool = False) -> None:
        self._raw = raw
        self._start = start
        self._single = single
        self._state: _Decompressor | None = None
        self._packed = b""

    def read(self, size: int, /) -> bytes:
        try:
            return self._read(size)
        except (lzma.LZMAError, OSError, EOFError, ValueError, MemoryError) as error:
            raise UnreadableError(f"broken data: {error}") from error

    def _read(self, size: int) -> bytes:
        while True:
            if self._state is not None and self._state.eof:
                if self._single:
                    return _require_end(self._state.unused_data, self._raw)
                self._packed = self._state.unused_data or self._raw.read(_PACKED_BYTES)
                while self._packed and not self._packed.strip(b"\0"):  # xz files are padded with zeros
                    self._packed = self._raw.read(_PACKED_BYTES)
                if not self._packed:
                    return b""
                self._packed = self._packed.lstrip(b"\0")
                self._state = None
            if self._state is None:
                self._state = self._start()
            if not self._packed and self._state.needs_input:
                self._packed = self._raw.read(_PACKED_BYTES)
                if not self._packed:
                    raise EOFError("the stream ends early")
            part = self._state.decompress(self._packed, size)
            self._packed = b""
            if part:
                return part


class _Zlib:
    """A zlib or deflate stream, which has to be all there is."""

    def __init__(self, raw: BinaryIO, state: zlib._Decompress) -> None:
        self._raw = raw
        self._state = state

    def read(self, size: int, /) -> bytes:
        try:
            while not self._state.eof:
                packed = self._state.unconsumed_tail or self._raw.read(_PACKED_BYTES)
                content = self._state.decompress(packed, size)
                if content:
                    return content
                if not packed:
                    raise EOFError("the stream ends early")
        except (zlib.error, EOFError) as error:
            raise UnreadableError(f"broken data: {error}") from error
        return _require_end(self._state.unused_data, self._raw)


def _require_end(unused: bytes, raw: BinaryIO) -> bytes:
    """Nothing, at the end of a packed stream. Raises `UnreadableError` for what lies behind it."""
    if unused or raw.read(1):
        raise UnreadableError("bytes behind the end of its packed data belong to nothing")
    return b""
