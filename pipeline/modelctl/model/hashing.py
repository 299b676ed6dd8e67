"""sha256 of files in bounded memory: small ones by the batch, then large ones in parallel.

A block of 1 MiB is read into the same buffer again and again, which is as quick as larger ones and needs no memory for
each. Hashing a block lets other threads run, so several large files use all cores. Small files cost system calls that
do not, so many of them are shared out to processes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from modelctl.model import hash_worker
from modelctl.model.hash_worker import BLOCK_BYTES, FAILED, LARGER, READ_PLAIN

FILES_A_PROCESS = 8192
"""With fewer for each, starting another process takes longer than it saves."""
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


def hash_files(locations: Sequence[str], *, on_bytes: Advance = _ignore, on_files: Advance = _ignore) -> list[Outcome]:
    """The outcome for each of many plain files, in their order; the callbacks are told of bytes and of files done."""
    cores = len(os.sched_getaffinity(0))
    outcomes: list[Outcome] = []
    large: list[int] = []
    for number, line in enumerate(_small(locations, min(cores, len(locations) // FILES_A_PROCESS), on_files)):
        if line[64:65] == " ":  # by far the most common: sha256 and size
            outcomes.append(Hashed._make((line[:64], int(line[65:]))))
        else:
            outcomes.append(NotHashed(line.removeprefix(FAILED)))
            if line == LARGER:
                large.append(number)
    on_bytes(sum([outcome.size_bytes for outcome in outcomes if isinstance(outcome, Hashed)]))
    large.sort(key=lambda number: _size(locations[number]), reverse=True)
    with ThreadPoolExecutor(cores) as pool:
        for number, outcome in zip(large, pool.map(lambda n: _large(locations[n], on_bytes), large), strict=True):
            outcomes[number] = outcome
    return outcomes


def _small(locations: Sequence[str], processes: int, on_files: Advance) -> Iterator[str]:
    """The worker's line for each file, in their order."""
    if processes < 2:
        yield from hash_worker.lines(map(os.fsencode, locations))
        on_files(len(locations))
        return
    share = -(-len(locations) // processes)
    parts = [locations[start : start + share] for start in range(0, len(locations), share)]
    with ThreadPoolExecutor(processes) as pool:
        for part in pool.map(lambda part: _in_process(part, on_files), parts):
            yield from part


def _in_process(locations: Sequence[str], on_files: Advance) -> list[str]:
    """What a worker of its own writes; what it cannot do is done here."""
    command = [sys.executable, "-I", "-S", hash_worker.__file__]
    chunks: list[bytes] = []
    done = 0
    with subprocess.Popen(
        command, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    ) as worker:
        if worker.stdin is None or worker.stdout is None:
            raise AssertionError("both are pipes")
        try:
            with worker.stdin as pipe:  # the worker reads all before it writes
                waiting = memoryview(os.fsencode("\0".join(locations) + "\0"))
                while waiting:
                    waiting = waiting[pipe.write(waiting) :]
        except BrokenPipeError:
            pass  # it ended early, and its lines are missing
        while chunk := worker.stdout.read(1 << 16):
            chunks.append(chunk)
            on_files(chunk.count(b"\n"))
            done += chunk.count(b"\n")
    lines = b"".join(chunks).decode().split("\n")[:-1]
    if worker.returncode or len(lines) != len(locations):
        lines = list(hash_worker.lines(map(os.fsencode, locations)))
    on_files(len(locations) - done)
    return lines


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
