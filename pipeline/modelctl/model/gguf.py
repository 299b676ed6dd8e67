"""The structure of a GGUF file, read without trusting it and without the library that an engine will use.

The rules are those of ggml's description of the format and of llama.cpp's reader, whichever is stricter: versions 2 and
3, little-endian; data in the order of the descriptions, aligned, without overlap or hole, padded with zeros, and every
byte of the file explained. Memory follows what is read, never a number in the file.
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
from modelctl.model.gguf_tensors import GgufTensor, read_tensor

ALIGNMENT_KEY = "general.alignment"
DEFAULT_ALIGNMENT = 32
MIN_ALIGNMENT = 8
"""Of the description; the reference asks only for a power of two."""
MAX_KEPT_ENTRIES = 2_000
MAX_KEPT_TEXT = 200
"""Characters of a metadata text that the summary keeps."""


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
            tensor = read_tensor(source, number, names, self.problems)
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
