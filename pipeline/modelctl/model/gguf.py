"""The structure of a GGUF file, read without trusting it and without the library that an engine will use.

The rules are those of ggml's description of the format and of llama.cpp's reader, whichever is stricter: versions 2 and
3, little-endian; tensor names of at most 63 bytes and once each, at most four dimensions, types and whole blocks that
ggml knows; data in the order of the descriptions, aligned, without overlap or hole, padded with zeros, and every byte
of the file explained. Memory follows what is read, never a number in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from modelctl.model.gguf_metadata import (
    BrokenGgufError,
    Entry,
    Problems,
    Source,
    Value,
    read_counts,
    read_entries,
)

ALIGNMENT_KEY = "general.alignment"
DEFAULT_ALIGNMENT = 32
MIN_ALIGNMENT = 8
"""Of the description; the reference asks only for a power of two."""
MAX_NAME_BYTES = 63
"""64 in the description; the reference keeps one for the terminator (GGML_MAX_NAME)."""
MAX_DIMENSIONS = 4
MAX_KEPT_ENTRIES = 2_000
MAX_KEPT_TEXT = 200
"""Characters of a metadata text that the summary keeps."""
_MAX_I64, _MAX_U64 = (1 << 63) - 1, (1 << 64) - 1

GGML_TYPES: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18), 42: ("Q2_0", 64, 18),
}  # fmt: skip
"""Number in the file → name, elements of a block, bytes of a block; those between are formats that ggml removed.

Q8_1 has 36 bytes in ggml's own reader and 40 in its Python package; the reader decides."""


@dataclass(frozen=True, kw_only=True)
class GgufTensor:
    """One tensor: `begin` and `end` count bytes from where tensor data begins."""

    name: str
    type: str
    shape: tuple[int, ...]
    """As in the file: the length of a row first."""
    begin: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Stored bytes, without padding."""
        return self.end - self.begin

    @property
    def elements(self) -> int:
        """Weights, whatever they are packed into."""
        return _product(self.shape)


@dataclass(frozen=True, kw_only=True)
class GgufHeader:
    """What a file's header says. With problems, `metadata` and `tensors` hold what was read until then."""

    version: int | None
    metadata: Mapping[str, Value]
    """Numbers, booleans and the beginning of texts, as the file has them: control characters and NaN too. An array is
    its type and length, as `str[49152]`."""
    tensors: tuple[GgufTensor, ...]
    """In the order of the file."""
    alignment: int
    data_start: int
    """Where tensor bytes begin in the file; 0 when that can't be known."""
    problems: tuple[str, ...]
    """Each `kind: detail`, with kind one of: unreadable, truncated, magic, version, counts, metadata, duplicate-key,
    alignment, tensor, duplicate-tensor, type, shape, size, offset, order, overlap, hole, past-end, padding,
    trailing-bytes, more."""


def read_header(path: Path) -> GgufHeader:
    """Read and judge a file. Never raises for what is in it; an unreadable file is a problem too."""
    reading = _Reading()
    try:
        with path.open("rb", buffering=1 << 20) as stream:
            reading.run(Source(stream))
    except BrokenGgufError as error:
        reading.problems.append(str(error))
    except OSError as error:
        reading.problems.add("unreadable", error.strerror or str(error))
    return GgufHeader(
        version=reading.version,
        metadata=reading.metadata,
        tensors=tuple(reading.tensors),
        alignment=reading.alignment,
        data_start=reading.data_start,
        problems=tuple(reading.problems),
    )


class _Reading:
    """What has been read, kept while a broken file is read as far as it goes."""

    def __init__(self) -> None:
        self.version: int | None = None
        self.metadata: dict[str, Value] = {}
        self.tensors: list[GgufTensor] = []
        self.alignment = DEFAULT_ALIGNMENT
        self.layout_known = True
        self.data_start = 0
        self.problems = Problems()

    def run(self, source: Source) -> None:
        """Read everything but the tensors' data. Raises `BrokenGgufError`."""
        counts = read_counts(source)
        self.version = counts.version
        for entry in read_entries(source, counts.entries, self.problems):
            self._keep(entry)
        names: set[str] = set()
        for number in range(counts.tensors):
            tensor = _tensor(source, number, names, self.problems)
            if tensor is None:
                self.layout_known = False
            else:
                self.tensors.append(tensor)
        self.data_start = _padded(source.position, self.alignment)
        if self.layout_known:  # else what follows would only repeat it
            self._judge_layout(source)

    def _keep(self, entry: Entry) -> None:
        if entry.key == ALIGNMENT_KEY:
            value = entry.value
            if entry.type != "u32" or not isinstance(value, int) or value < MIN_ALIGNMENT or value & (value - 1):
                detail = f"{ALIGNMENT_KEY} is {entry.value!a:.40} of type {entry.type}"
                self.problems.add(
                    "alignment", f"{detail}, wanted a u32 that is a power of two, {MIN_ALIGNMENT} or more"
                )
            else:
                self.alignment = value
        if len(self.metadata) < MAX_KEPT_ENTRIES:
            value = entry.type if entry.value is None else entry.value
            self.metadata[entry.key[:MAX_KEPT_TEXT]] = value[:MAX_KEPT_TEXT] if isinstance(value, str) else value

    def _judge_layout(self, source: Source) -> None:
        tensors, problems = self.tensors, self.problems
        if any([*_offsets(tensors, self.alignment, problems), *_order(tensors, problems)]):
            return
        data_bytes = max(0, source.size - self.data_start)
        if not _covers(tensors, self.alignment, data_bytes, problems):
            return
        gaps = [(source.position, self.data_start)]
        gaps += [(self.data_start + one.end, self.data_start + two.begin) for one, two in pairwise(tensors)]
        end = self.data_start + tensors[-1].end if tensors else self.data_start
        gaps.append((end, min(source.size, _padded(end, self.alignment))))
        for begin, stop in gaps:
            if not source.is_zero(begin, min(stop, source.size)):
                problems.add("padding", f"bytes {begin} to {stop} are padding and not all zero")
                return


def _tensor(source: Source, number: int, names: set[str], problems: Problems) -> GgufTensor | None:
    """One description, or None when it was read and its size can't be known."""
    length = source.number("Q", f"the name of tensor {number}")
    if length > MAX_NAME_BYTES:
        raise BrokenGgufError(f"tensor: the name of tensor {number} has {length} bytes, the most is {MAX_NAME_BYTES}")
    raw = source.take(length, f"the name of tensor {number}")
    name = raw.decode("utf-8", "backslashreplace")
    where = f"tensor {name!a}"
    if name.encode() != raw:
        problems.add("tensor", f"{where} has a name that is not UTF-8")
    if not name.isprintable():
        problems.add("tensor", f"{where} has unprintable characters in its name")
    if name in names:
        problems.add("duplicate-tensor", f"{where} is described twice")
    names.add(name)
    dimensions = source.number("I", where)
    if dimensions > MAX_DIMENSIONS:
        raise BrokenGgufError(f"shape: {where} has {dimensions} dimensions, the most is {MAX_DIMENSIONS}")
    shape = tuple(source.number("Q", where) for _ in range(dimensions))
    kind = source.number("I", where)
    begin = source.number("Q", where)
    if kind not in GGML_TYPES:
        problems.add("type", f"{where} has the unknown type {kind}")
        return None
    word, block, block_bytes = GGML_TYPES[kind]
    if max(shape, default=0) > _MAX_I64 or _product(shape) >= _MAX_I64:
        problems.add("shape", f"{where} of shape {list(shape)} has more elements than 63 bits count")
        return None
    if 0 in shape:
        problems.add("shape", f"{where} of shape {list(shape)} has no elements: readers have crashed on a side of 0")
        return None
    row = shape[0] if shape else 1
    if row % block:
        problems.add("shape", f"{where} has rows of {row}, wanted whole blocks of {block} for {word}")
        return None
    size = _product(shape) // block * block_bytes
    if begin + size > _MAX_U64:
        problems.add("size", f"{where} of {size} bytes at {begin} ends after what 64 bits count")
        return None
    return GgufTensor(name=name, type=word, shape=shape, begin=begin, end=begin + size)


def _offsets(tensors: list[GgufTensor], alignment: int, problems: Problems) -> Iterator[bool]:
    for tensor in tensors:
        if tensor.begin % alignment:
            problems.add("offset", f"tensor {tensor.name!a} begins at {tensor.begin}, no multiple of {alignment}")
            yield True


def _order(tensors: list[GgufTensor], problems: Problems) -> Iterator[bool]:
    """Only the first: the reference reader walks descriptions and data side by side."""
    for one, two in pairwise(tensors):
        if two.begin < one.begin:
            detail = f"tensor {two.name!a} at {two.begin} is described after {one.name!a} at {one.begin}"
            problems.add("order", f"{detail}, wanted the order of the data")
            yield True
            return


def _covers(tensors: list[GgufTensor], alignment: int, data_bytes: int, problems: Problems) -> bool:
    """Whether data and padding follow each other to the end of the file; the first place where not is a problem."""
    position = end = 0
    for tensor in tensors:
        where = f"tensor {tensor.name!a} at {tensor.begin} to {tensor.end}"
        if tensor.begin < position:
            problems.add("overlap", f"{where} begins before {position}, where the one before it ends with its padding")
            return False
        if tensor.begin > position:
            problems.add("hole", f"{tensor.begin - position} unexplained bytes before {where}")
            return False
        end = tensor.end
        position = _padded(end, alignment)
        if end > data_bytes:
            problems.add("past-end", f"{where} ends past the file's {data_bytes} data bytes")
            return False
    if data_bytes > position:
        problems.add("trailing-bytes", f"{data_bytes - position} bytes after the last tensor belong to none")
        return False
    return True


def _padded(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def _product(shape: tuple[int, ...]) -> int:
    count = 1
    for dimension in shape:
        count *= dimension
    return count
