"""The stored weights as numbers: NaN, Inf, all zero and constant tensors, found in one pass over a file of weights.

Blocks are read into small buffers (no memory map: a file cut short meanwhile would kill the process) by one thread a
core, so memory is some MiB whatever the size. Floats are never converted: in sign-and-magnitude bits, NaN and Inf are
the largest magnitudes (IEEE 754, section 3.4; for 8 bits the OCP 8-bit floating point specification, section 5). The
OR of a block's bits is at least as large as each of them, so one pass clears a block whose weights are all under 2;
else two maxima, of the bits as signed and as unsigned integers, tell whether it holds any, and only then they are
counted. Of the packed types of GGUF the scales of the blocks are judged in this way.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from modelctl.model.gguf_blocks import BLOCK_SIZES, scales
from modelctl.model.safetensors import DTYPE_BITS, Header, TensorInfo

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Block = npt.NDArray[np.unsignedinteger]

BLOCK_BYTES = 2 << 20
"""Bytes read at a time, less what is left over of a whole element or block: small enough for a processor's cache."""
JOB_BYTES = 32 << 20
JOB_PIECES = 512
"""The most that a thread takes at a time."""
MAX_THREADS = 16
"""More wait for memory, and each has a buffer."""


@dataclass(frozen=True, kw_only=True)
class TensorNumbers:
    """What the stored elements of one tensor are. A complex number counts as two; 4 and 6 bit types as their bytes.

    Of a tensor that is packed in blocks, the elements are the blocks' scales.
    """

    tensor: TensorInfo
    elements: int
    nans: int
    infinities: int
    zero: bool
    """Every element is +0 or -0."""
    constant: bool
    """Every element, or every block, has the same bits."""

    @property
    def in_blocks(self) -> bool:
        """Whether the tensor is packed in blocks."""
        return self.tensor.dtype in BLOCK_SIZES


@dataclass(frozen=True, kw_only=True)
class _Bits:
    """How special values of a type are told by magnitude (the bits without the sign)."""

    width: int
    signed: bool = False
    infinity: int | None = None
    nan: int = 1 << 64
    """The smallest magnitude that is NaN; without a sign-and-magnitude form the one pattern that is, if any."""


_SPECIAL: Mapping[str, _Bits] = {
    "F64": _Bits(width=64, signed=True, infinity=0x7FF << 52, nan=(0x7FF << 52) + 1),
    "F32": _Bits(width=32, signed=True, infinity=0x7F800000, nan=0x7F800001),
    "C64": _Bits(width=32, signed=True, infinity=0x7F800000, nan=0x7F800001),
    "BF16": _Bits(width=16, signed=True, infinity=0x7F80, nan=0x7F81),
    "F16": _Bits(width=16, signed=True, infinity=0x7C00, nan=0x7C01),
    "F8_E5M2": _Bits(width=8, signed=True, infinity=0x7C, nan=0x7D),
    "F8_E4M3": _Bits(width=8, signed=True, nan=0x7F),
    "F8_E4M3FNUZ": _Bits(width=8, nan=0x80),
    "F8_E5M2FNUZ": _Bits(width=8, nan=0x80),
    "F8_E8M0": _Bits(width=8, nan=0xFF),
}


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """A part of one tensor: bytes `begin` to `end` of the file."""

    tensor: TensorInfo
    begin: int
    end: int


@dataclass(kw_only=True)
class _Sum:
    """What is known of a tensor, or of a part of it; `first` is the bits of its first element or block."""

    tensor: TensorInfo
    first: int
    elements: int = 0
    nans: int = 0
    infinities: int = 0
    zero: bool = True
    constant: bool = True

    def add(self, other: _Sum) -> None:
        """Take in the part that follows."""
        self.elements += other.elements
        self.nans += other.nans
        self.infinities += other.infinities
        self.zero = self.zero and other.zero
        self.constant = self.constant and other.constant and self.first == other.first

    def result(self) -> TensorNumbers:
        """The finished sum."""
        return TensorNumbers(
            tensor=self.tensor,
            elements=self.elements,
            nans=self.nans,
            infinities=self.infinities,
            zero=self.zero,
            constant=self.constant,
        )


def is_float(dtype: str) -> bool:
    """Whether a type of safetensors or GGUF has NaN."""
    return dtype in _SPECIAL or dtype in BLOCK_SIZES


def read_numbers(
    path: Path, header: Header, *, advance: Callable[[float], None] = lambda _: None, threads: int | None = None
) -> Iterator[TensorNumbers]:
    """What the elements of each tensor are, in the order of the file; empty tensors are left out.

    `header` is that of the file, without problems; `advance` is told the bytes read, from several threads. `threads`
    is one a core by default, `MAX_THREADS` at most. Raises `OSError` when the file can't be read or has become shorter.
    """
    count = threads or min(os.cpu_count() or 1, MAX_THREADS)
    jobs = _jobs(header)
    buffers: SimpleQueue[bytearray] = SimpleQueue()
    for _ in range(count):
        buffers.put(bytearray(BLOCK_BYTES))
    with ThreadPoolExecutor(count) as pool:
        running: deque[Future[list[_Sum]]] = deque(
            pool.submit(_read, path, job, buffers, advance) for job in islice(jobs, 2 * count)
        )
        current: _Sum | None = None
        try:
            while running:
                sums = running.popleft().result()
                running.extend(pool.submit(_read, path, job, buffers, advance) for job in islice(jobs, 1))
                for found in sums:
                    if current is not None and current.tensor is found.tensor:
                        current.add(found)
                        continue
                    if current is not None:
                        yield current.result()
                    current = found
        finally:
            for future in running:
                future.cancel()
        if current is not None:
            yield current.result()


def _jobs(header: Header) -> Iterator[list[_Piece]]:
    """The file's data in parts of at most `JOB_BYTES` and `JOB_PIECES`, in order."""
    job: list[_Piece] = []
    room = JOB_BYTES
    for tensor in header.tensors:
        begin, last = header.data_start + tensor.begin, header.data_start + tensor.end
        unit = _unit(tensor)
        while begin < last:
            end = min(last, begin + max(room - room % unit, unit))
            job.append(_Piece(tensor=tensor, begin=begin, end=end))
            room -= end - begin
            begin = end
            if room < BLOCK_BYTES or len(job) == JOB_PIECES:
                yield job
                job, room = [], JOB_BYTES
    if job:
        yield job


def _unit(tensor: TensorInfo) -> int:
    """Bytes of a tensor that are never cut: one block, or a word that holds whole elements of every type."""
    return BLOCK_SIZES.get(tensor.dtype, 8)


def _read(
    path: Path, job: list[_Piece], buffers: SimpleQueue[bytearray], advance: Callable[[float], None]
) -> list[_Sum]:
    memory = buffers.get()
    try:
        return _sums(path, job, memory, advance)
    finally:
        buffers.put(memory)


def _sums(path: Path, job: list[_Piece], memory: bytearray, advance: Callable[[float], None]) -> list[_Sum]:
    import numpy as np

    buffer = np.frombuffer(memory, np.uint8)
    sums: list[_Sum] = []
    with path.open("rb", buffering=0) as stream:
        for piece in job:
            unit = _unit(piece.tensor)
            step = max(BLOCK_BYTES - BLOCK_BYTES % unit, unit)
            total: _Sum | None = None
            stream.seek(piece.begin)
            for begin in range(piece.begin, piece.end, step):
                size = min(step, piece.end - begin)
                _fill(stream.readinto, memoryview(memory)[:size], path)
                found = _summary(piece.tensor, buffer[:size])
                if total is None:
                    total = found
                    sums.append(total)
                else:
                    total.add(found)
                advance(size)
    return sums


def _fill(readinto: Callable[[memoryview], int | None], room: memoryview, path: Path) -> None:
    while room:
        got = readinto(room)
        if not got:
            raise OSError(f"{path}: the file has become shorter while it was read")
        room = room[got:]


def _summary(tensor: TensorInfo, content: npt.NDArray[np.uint8]) -> _Sum:
    if tensor.dtype in BLOCK_SIZES:
        return _blocks_summary(tensor, content.reshape(-1, BLOCK_SIZES[tensor.dtype]))
    bits = _SPECIAL.get(tensor.dtype) or _Bits(width=max(DTYPE_BITS[tensor.dtype] // 8 * 8, 8))
    return _plain_summary(tensor, content.view(f"u{bits.width // 8}"), bits)


def _blocks_summary(tensor: TensorInfo, blocks: npt.NDArray[np.uint8]) -> _Sum:
    """Of whole blocks; zeros are those that no scale can tell from zero, or blocks of nothing but zero bits."""
    found = _Sum(tensor=tensor, first=int.from_bytes(blocks[0].tobytes()))
    found.constant = bool((blocks[0] == blocks[-1]).all()) and bool((blocks == blocks[0]).all())
    for dtype, words in scales(tensor.dtype, blocks):
        field = _plain_summary(tensor, words, _SPECIAL[dtype])
        found.elements += field.elements
        found.nans += field.nans
        found.infinities += field.infinities
        found.zero = found.zero and field.zero and (dtype != "F8_E8M0" or (found.constant and not found.first))
    return found


def _plain_summary(tensor: TensorInfo, block: Block, bits: _Bits) -> _Sum:
    import numpy as np

    found = _Sum(tensor=tensor, first=int(block[0]), elements=len(block))
    samples = {found.first, int(block[len(block) // 2]), int(block[-1])}
    found.constant = len(samples) == 1 and int(block.min()) == int(block.max())
    if not bits.signed:
        found.zero = found.constant and found.first == 0
        if bits.nan < 1 << bits.width:
            found.nans = int(np.count_nonzero(block == bits.nan))
        return found
    mask = (1 << (bits.width - 1)) - 1
    lowest = bits.infinity or bits.nan
    gathered = int(np.bitwise_or.reduce(block)) & mask  # no magnitude is over this
    found.zero = gathered == 0
    if gathered < lowest:
        return found
    top = int(block.max())
    largest = max(int(block.view(f"i{bits.width // 8}").max()), top & mask if top > mask else 0)
    if largest >= lowest:
        magnitudes = block & block.dtype.type(mask)
        found.nans = int(np.count_nonzero(magnitudes >= bits.nan))
        if bits.infinity is not None:
            found.infinities = int(np.count_nonzero(magnitudes == bits.infinity))
    return found
