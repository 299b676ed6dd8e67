"""The hashes of many small files, by processes that begin while the files are still being listed.

What costs time in a small file is its system calls, and Python does not run those of two threads side by side for long.
So `hash_worker` runs as a program of its own, once a core, and is given the files a batch at a time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType

from modelctl.model import hash_worker

FILES_A_PROCESS = 8192
"""With fewer for each, starting another process takes longer than it saves."""
BATCH = 2048


class SmallFiles:
    """Worker processes for the time of a `with` block; none is started for few files, or on one core."""

    def __init__(self) -> None:
        cores = len(os.sched_getaffinity(0))
        self._cores = cores if cores > 1 else 0
        self._pool = ThreadPoolExecutor(cores)
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        self._workers: list[_Worker] = []
        self._given = 0
        self._batches: list[Future[list[str]]] = []

    def __enter__(self) -> SmallFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.end()
        self._pool.shutdown(cancel_futures=True)

    def offer(self, locations: Sequence[str]) -> None:
        """Begin with what is new in a list that grows, once it is worth the processes."""
        while len(self._workers) < min(self._cores, len(locations) // FILES_A_PROCESS):
            self._workers.append(worker := _Worker())
            self._free.put(worker)
        while self._workers and len(locations) - self._given >= BATCH:
            self._give(locations[self._given : self._given + BATCH])

    def lines(self, locations: Sequence[str], on_files: Callable[[float], None]) -> Iterator[str]:
        """`hash_worker`'s line for each file of the whole list, in its order."""
        self.offer(locations)
        if self._workers and self._given < len(locations):
            self._give(locations[self._given :])
        for batch in self._batches:
            lines = batch.result()
            on_files(len(lines))
            yield from lines
        rest = locations[self._given :]
        yield from hash_worker.lines(map(os.fsencode, rest))
        on_files(len(rest))

    def _give(self, batch: Sequence[str]) -> None:
        self._given += len(batch)
        self._batches.append(self._pool.submit(self._hash, batch))

    def _hash(self, batch: Sequence[str]) -> list[str]:
        worker = self._free.get()
        try:
            lines = worker.hash(batch)
        finally:
            self._free.put(worker)
        return list(hash_worker.lines(map(os.fsencode, batch))) if lines is None else lines


class _Worker:
    """One process of `hash_worker`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", hash_worker.__file__],
            cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def hash(self, batch: Sequence[str]) -> list[str] | None:
        """Its lines for a batch; None when it has ended, or says something else."""
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("both are pipes")
        try:
            self._process.stdin.write(hash_worker.request(batch))
            self._process.stdin.flush()  # it reads the whole batch before it writes
            lines = [self._process.stdout.readline() for _ in batch]
        except (OSError, ValueError):
            return None
        return [line[:-1].decode() for line in lines] if lines[-1].endswith(b"\n") else None

    def end(self) -> None:
        """End it, whatever it is doing."""
        self._process.kill()
        self._process.communicate()
