"""sha256 of files in bounded memory: small ones by the batch, then large ones in parallel.

A block of 1 MiB is read into the same buffer again and again, which is as quick as larger ones and needs no memory for
each. Hashing a block lets other threads run, so several large files use all cores; small ones are `small_files`' part.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from modelctl.model.hash_worker import BLOCK_BYTES, FAILED, LARGER, READ_PLAIN
from modelctl.model.small_files import SmallFiles

MAX_HOLE_BYTES = 16 << 30
"""A file with so many bytes that are not on the disk is not read: it costs its maker nothing and the reader hours."""
_MAX_EXTENTS = 1 << 16

Advance = Callable[[float], None]


class Hashed(NamedTuple):
    """The sha256 in hex of all bytes of one file, and how many they were."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class NotHashed:
    """Why a file has no hash: it cannot be read, or is not worth reading."""

    detail: str
    sparse: bool = False


Outcome = Hashed | NotHashed


def _ignore(_: float) -> None:
    pass


def hash_file(path: Path, advance: Advance = _ignore) -> str:
    """sha256 of a file in hex. `advance` is told of bytes as they are done. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _whole(descriptor, advance).sha256
    finally:
        os.close(descriptor)


def hash_files(
    locations: Sequence[str],
    *,
    small: SmallFiles | None = None,
    on_bytes: Advance = _ignore,
    on_files: Advance = _ignore,
) -> list[Outcome]:
    """The outcome for each of many plain files, in their order; the callbacks are told of bytes and of files done.

    `small` may have begun with the first of them.
    """
    if small is None:
        with SmallFiles() as begun:
            return hash_files(locations, small=begun, on_bytes=on_bytes, on_files=on_files)
    outcomes: list[Outcome] = []
    large: list[int] = []
    for number, line in enumerate(small.lines(locations, on_files)):
        if line[64:65] == " ":  # by far the most common: sha256 and size
            outcomes.append(Hashed._make((line[:64], int(line[65:]))))
        else:
            outcomes.append(NotHashed(line.removeprefix(FAILED)))
            if line == LARGER:
                large.append(number)
    on_bytes(sum([outcome.size_bytes for outcome in outcomes if isinstance(outcome, Hashed)]))
    large.sort(key=lambda number: _size(locations[number]), reverse=True)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number, outcome in zip(large, pool.map(lambda n: _large(locations[n], on_bytes), large), strict=True):
            outcomes[number] = outcome
    return outcomes


def _large(location: str, advance: Advance) -> Outcome:
    try:
        descriptor = os.open(location, READ_PLAIN)
        try:
            if hole_bytes(descriptor, at_most=MAX_HOLE_BYTES) >= MAX_HOLE_BYTES:
                size = os.fstat(descriptor).st_size
                detail = f"claims {size} bytes; over {MAX_HOLE_BYTES >> 30} GiB of them are not on the disk"
                return NotHashed(detail, sparse=True)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            return _whole(descriptor, advance)
        finally:
            os.close(descriptor)
    except OSError as error:
        return NotHashed(error.strerror or str(error))


def _whole(descriptor: int, advance: Advance) -> Hashed:
    buffer = bytearray(BLOCK_BYTES)
    view, buffers = memoryview(buffer), (buffer,)
    digest, total = hashlib.sha256(), 0
    while count := os.readv(descriptor, buffers):
        digest.update(view[:count])
        total += count
        advance(count)
    return Hashed(digest.hexdigest(), total)


def hole_bytes(descriptor: int, *, at_most: int) -> int:
    """Bytes of an open file that are not on the disk, counted up to a bound; 0 where the file system cannot tell.

    Fewer blocks than bytes may also mean compression, so the holes themselves are asked for. Raises `OSError`.
    """
    status = os.fstat(descriptor)
    if status.st_size - status.st_blocks * 512 < at_most:
        return 0
    holes = position = 0
    for _ in range(_MAX_EXTENTS):
        try:
            data = os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError:  # no data behind this position
            data = status.st_size
        holes += data - position
        if holes >= at_most or data >= status.st_size:
            break
        position = os.lseek(descriptor, data, os.SEEK_HOLE)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return holes


def _size(location: str) -> int:
    try:
        return Path(location).stat().st_size
    except OSError:
        return 0
