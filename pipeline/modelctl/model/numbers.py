"""The stored weights as numbers: NaN, Inf, all zero and constant tensors, found in one pass over a file of weights.

Blocks are read into small buffers (no memory map: a file cut short meanwhile would kill the process) by one thread a
core, so memory is some MiB whatever the size. `number_bits` tells what a block holds.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

from modelctl.model.gguf_blocks import BLOCK_SIZES
from modelctl.model.number_bits import NumberSum, summary
from modelctl.model.safetensors import Header, TensorInfo

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

    @classmethod
    def of(cls, found: NumberSum) -> TensorNumbers:
        """The finished sum of a tensor."""
        return cls(
            tensor=found.tensor,
            elements=found.elements,
            nans=found.nans,
            infinities=found.infinities,
            zero=found.zero,
            constant=found.constant,
        )


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """A part of one tensor: bytes `begin` to `end` of the file."""

    tensor: TensorInfo
    begin: int
    end: int


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
        running: deque[Future[list[NumberSum]]] = deque(
            pool.submit(_read, path, job, buffers, advance) for job in islice(jobs, 2 * count)
        )
        current: NumberSum | None = None
        try:
            while running:
                sums = running.popleft().result()
                running.extend(pool.submit(_read, path, job, buffers, advance) for job in islice(jobs, 1))
                for found in sums:
                    if current is not None and current.tensor is found.tensor:
                        current.add(found)
                        continue
                    if current is not None:
                        yield TensorNumbers.of(current)
                    current = found
        finally:
            for future in running:
                future.cancel()
        if current is not None:
            yield TensorNumbers.of(current)


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
) -> list[NumberSum]:
    memory = buffers.get()
    try:
        return _sums(path, job, memory, advance)
    finally:
        buffers.put(memory)


def _sums(path: Path, job: list[_Piece], memory: bytearray, advance: Callable[[float], None]) -> list[NumberSum]:
    import numpy as np

    buffer = np.frombuffer(memory, np.uint8)
    sums: list[NumberSum] = []
    with path.open("rb", buffering=0) as stream:
        for piece in job:
            unit = _unit(piece.tensor)
            step = max(BLOCK_BYTES - BLOCK_BYTES % unit, unit)
            total: NumberSum | None = None
            stream.seek(piece.begin)
            for begin in range(piece.begin, piece.end, step):
                size = min(step, piece.end - begin)
                _fill(stream.readinto, memoryview(memory)[:size], path)
                found = summary(piece.tensor, buffer[:size])
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
