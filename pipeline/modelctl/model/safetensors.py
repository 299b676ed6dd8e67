"""The header of a safetensors file, read without trusting it and without the library that an engine will use.

The rules are those of the format's description and of the reference reader (version 0.8): a length of at most
100,000,000 bytes, one JSON object, tensors that cover the rest of the file exactly. Stricter than the reader, as the
description asks: no duplicate names, the object starts at once, an entry has three keys and no more. Memory use follows
the file's size, never a number in it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from modelctl.errors import InputError
from modelctl.model.strict_json import Json, parse_object

MAX_HEADER_BYTES = 100_000_000
METADATA_KEY = "__metadata__"
LENGTH_BYTES = 8

DTYPE_BITS: Mapping[str, int] = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
"""Bits of one element."""

_MAX_U64 = (1 << 64) - 1
_ENTRY_KEYS = {"dtype", "shape", "data_offsets"}


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """One tensor: `begin` and `end` count bytes from the end of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Stored bytes."""
        return self.end - self.begin

    @property
    def elements(self) -> int:
        """Stored elements (8 bytes of int32 that pack 16 weights are 2)."""
        count = 1
        for dimension in self.shape:
            count *= dimension
        return count


@dataclass(frozen=True, kw_only=True)
class HeaderProblem:
    """One way in which a file is no valid safetensors file."""

    kind: str
    """One of: unreadable, length, json, metadata, entry, dtype, size, overlap, hole, past-end, trailing-bytes."""
    detail: str


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a file's header says. With problems, `tensors` holds only the entries that could be read."""

    tensors: tuple[TensorInfo, ...]
    """Sorted by position."""
    metadata: Mapping[str, str]
    data_start: int
    """Where tensor bytes begin in the file."""
    problems: tuple[HeaderProblem, ...]


def read_header(path: Path) -> Header:
    """Read and judge a file's header. Never raises for what is in the file; an unreadable file is a problem too."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(0)
            prefix = stream.read(LENGTH_BYTES)
            length, problem = _length(prefix, size)
            content = stream.read(length) if problem is None else b""
    except OSError as error:
        problem = HeaderProblem(kind="unreadable", detail=error.strerror or str(error))
    if problem is not None:
        return Header(tensors=(), metadata={}, data_start=0, problems=(problem,))
    return parse_header(content, data_bytes=size - LENGTH_BYTES - length)


def parse_header(content: bytes, *, data_bytes: int) -> Header:
    """Judge the JSON part of a header against the number of bytes that follow it."""
    data_start = LENGTH_BYTES + len(content)
    try:
        if content[:1] != b"{":
            raise InputError(f"the header starts with {content[:1]!r}, wanted '{{'")
        entries = parse_object(content, origin="header", naturals_only=True)
    except InputError as error:
        problem = HeaderProblem(kind="json", detail=error.message)
        return Header(tensors=(), metadata={}, data_start=data_start, problems=(problem,))
    problems: list[HeaderProblem] = []
    metadata = _metadata(entries.pop(METADATA_KEY, {}), problems)
    tensors: list[TensorInfo] = []
    for name, entry in entries.items():
        tensor = _tensor(name, entry)
        if isinstance(tensor, HeaderProblem):
            problems.append(tensor)
        else:
            tensors.append(tensor)
    tensors.sort(key=lambda item: (item.begin, item.end))
    if not problems:
        problems += _layout(tensors, data_bytes)
    return Header(tensors=tuple(tensors), metadata=metadata, data_start=data_start, problems=tuple(problems))


def _length(prefix: bytes, size: int) -> tuple[int, HeaderProblem | None]:
    if len(prefix) < LENGTH_BYTES:
        return 0, HeaderProblem(
            kind="length", detail=f"the file has {size} bytes, fewer than the {LENGTH_BYTES} needed"
        )
    length = int(struct.unpack("<Q", prefix)[0])
    if length > MAX_HEADER_BYTES:
        return 0, HeaderProblem(kind="length", detail=f"header length {length}, the most is {MAX_HEADER_BYTES}")
    if length > size - LENGTH_BYTES:
        return 0, HeaderProblem(kind="length", detail=f"header length {length}, but the file has {size} bytes")
    return length, None


def _metadata(value: Json, problems: list[HeaderProblem]) -> dict[str, str]:
    if not isinstance(value, Mapping):
        problems.append(HeaderProblem(kind="metadata", detail=f"{METADATA_KEY} is no object"))
        return {}
    texts = {key: item for key, item in value.items() if isinstance(item, str)}
    for key in value.keys() - texts.keys():
        detail = f"{METADATA_KEY}: {key[:80]!a} is {value[key]!a:.40}, wanted a string"
        problems.append(HeaderProblem(kind="metadata", detail=detail))
    return texts


def _tensor(name: str, entry: Json) -> TensorInfo | HeaderProblem:
    where = f"tensor {name[:120]!a}"
    if not isinstance(entry, Mapping) or entry.keys() != _ENTRY_KEYS:
        return HeaderProblem(kind="entry", detail=f"{where}: wanted exactly the keys dtype, shape and data_offsets")
    dtype = entry["dtype"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        return HeaderProblem(kind="dtype", detail=f"{where}: unknown dtype {dtype!a:.40}")
    shape = _naturals(entry["shape"])
    offsets = _naturals(entry["data_offsets"])
    if shape is None or offsets is None or len(offsets) != 2:
        detail = f"{where}: shape and data_offsets must be lists of whole numbers, two of them for data_offsets"
        return HeaderProblem(kind="entry", detail=detail)
    begin, end = offsets
    elements = 1
    for dimension in shape:
        elements *= dimension
        if elements > _MAX_U64:
            return HeaderProblem(kind="size", detail=f"{where}: the shape overflows 64 bits")
    bits = elements * DTYPE_BITS[dtype]
    if bits > _MAX_U64 or bits % 8 or end - begin != bits // 8:
        detail = (
            f"{where}: {dtype} of shape {list(shape)!s:.80} takes {bits / 8:g} bytes, the offsets give {end - begin}"
        )
        return HeaderProblem(kind="size", detail=detail)
    return TensorInfo(name=name, dtype=dtype, shape=shape, begin=begin, end=end)


def _naturals(value: Json) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    numbers = tuple(item for item in value if isinstance(item, int) and not isinstance(item, bool) and item <= _MAX_U64)
    return numbers if len(numbers) == len(value) else None


def _layout(tensors: list[TensorInfo], data_bytes: int) -> Iterator[HeaderProblem]:
    """The first place where the tensors do not cover the data exactly; what follows it would only repeat it."""
    position = 0
    for tensor in tensors:
        where = f"tensor {tensor.name[:120]!a} at {tensor.begin}..{tensor.end}"
        if tensor.begin < position:
            yield HeaderProblem(kind="overlap", detail=f"{where} overlaps the one before it, which ends at {position}")
            return
        if tensor.begin > position:
            yield HeaderProblem(kind="hole", detail=f"{tensor.begin - position} unexplained bytes before {where}")
            return
        position = tensor.end
        if position > data_bytes:
            yield HeaderProblem(kind="past-end", detail=f"{where} ends past the file's {data_bytes} data bytes")
            return
    if position < data_bytes:
        detail = f"{data_bytes - position} bytes after the last tensor belong to none"
        yield HeaderProblem(kind="trailing-bytes", detail=detail)
