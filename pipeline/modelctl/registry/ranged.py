"""Objects fetched in ranges by several workers at once, and hashed in order while they arrive.

What breaks off is asked for again with growing patience. Nothing is believed for being on the disk: the hash of a file
is taken over all of it, parts of an earlier run included. Memory is one block a worker.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from itertools import zip_longest
from threading import Event

from modelctl.errors import ModelctlError, RefusedError
from modelctl.model.s3_client import S3Stream
from modelctl.model.s3_faults import StoreUnavailableError
from modelctl.progress import Task
from modelctl.registry.durable import WriteOut
from modelctl.registry.incoming import Incoming, Writing
from modelctl.registry.store import ObjectStore

WORKERS = 6
SPAN_PARTS = 8
"""So many parts that follow each other come by one request: servers read ahead, in vain when it ends."""
BLOCK_BYTES = 1 << 18
HASHED_BYTES = 1 << 20
SILENCE_S = 30.0
"""Longest silence of the server, in seconds, before a request is made anew."""
WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses between requests that bring nothing; any byte that arrives starts the list again."""
DAMAGED = "the object was changed or damaged; modelctl publish of the same bytes puts it back"


Step = Callable[[memoryview, "deque[Step]"], None]
"""What a worker does next, with its buffer, and the queue that more may be added to."""


class _StoppedError(Exception):
    """Another worker failed, or the person pressed Ctrl-C."""


@dataclass(frozen=True, kw_only=True)
class Download:
    """Files of one bucket, brought by several workers."""

    store: ObjectStore
    task: Task
    disk: WriteOut
    workers: int = WORKERS
    stop: Event = field(default_factory=Event)
    streams: set[S3Stream] = field(default_factory=set)

    def run(self, files: Sequence[Incoming]) -> None:
        """Bring every file to its full size with the right hash.

        Raises `RefusedError` that names the first file whose bytes are wrong (it is removed; the others are kept),
        `StoreError`, and `OSError` when the disk does not take them.
        """
        plans = []
        for file in files:
            self.task.advance(file.open())
            plans.append(self._plan(file))
        # in turn: a file whose parts come in their order is hashed as they do
        work = deque(step for turn in zip_longest(*plans) for step in turn if step is not None)
        pool = ThreadPoolExecutor(self.workers)
        try:
            jobs = [pool.submit(self._work, work) for _ in range(self.workers)]
            finished = wait(jobs, return_when=FIRST_EXCEPTION).done
            errors = [error for error in (job.exception() for job in finished) if error is not None]
            if errors:
                self._interrupt()
                errors = [error for error in (job.exception() for job in jobs) if error is not None]
            for error in sorted(errors, key=_weight):
                raise error
        finally:
            self._interrupt()
            pool.shutdown(cancel_futures=True)

    def _plan(self, file: Incoming) -> list[Step]:
        steps: list[Step] = []
        if file.done or not file.parts:
            steps.append(lambda _buffer, work: self._hash(file, work))
        for span in file.missing(SPAN_PARTS):
            steps.append(lambda buffer, work, span=span: self._span(file, span, buffer, work))  # type: ignore[misc]
        return steps

    def _work(self, work: deque[Step]) -> None:
        buffer = memoryview(bytearray(BLOCK_BYTES))
        while not self.stop.is_set():
            try:
                step = work.popleft()
            except IndexError:
                return
            step(buffer, work)

    def _span(self, file: Incoming, span: range, buffer: memoryview, work: deque[Step]) -> None:
        """Fetch parts that follow each other, by one request as long as the connection holds."""
        self.task.describe(file.entry.path)
        descriptor = os.open(file.path, os.O_WRONLY)
        try:
            writing = Writing(file=file, descriptor=descriptor, part=span.start, offset=file.span(span.start)[0])
            last = file.span(span[-1])
            length = sum(last) - writing.offset
            with closing(self._receive(file.key, writing.offset, length, buffer)) as blocks:
                for block in blocks:
                    for arrived in writing.take(block):
                        self.disk.wrote(file.path, arrived)
        finally:
            os.close(descriptor)
        self._hash(file, work)

    def _receive(self, key: str, offset: int, length: int, buffer: memoryview) -> Generator[memoryview]:
        """A range of an object, asking again for what did not come."""
        have = failures = 0
        while have < length:
            before = have
            error: StoreUnavailableError | None = None
            answer = self.store.stream(key, offset=offset + have, length=length - have)
            self.streams.add(answer)
            try:
                for received in answer.into(buffer):
                    if self.stop.is_set():
                        raise _StoppedError
                    block = received[: length - have]
                    yield block
                    have += len(block)
                    self.task.advance(len(block))
                    if len(received) > len(block):  # the server takes no ranges; a connection that ends is used again
                        break
            except StoreUnavailableError as broken:
                error = broken
            finally:
                self.streams.discard(answer)
            if have == length:
                return
            failures = 0 if have > before else failures + 1
            if failures > len(WAITS_S):
                raise error or StoreUnavailableError(
                    f"cannot fetch {key}: the bytes from {offset + have} on do not come from {self.store.place}",
                    remedy="run the same command again: what has arrived is kept",
                )
            if self.stop.wait(WAITS_S[max(failures, 1) - 1]):
                raise _StoppedError

    def _hash(self, file: Incoming, work: deque[Step]) -> None:
        """Go on with the hash as far as the parts reach, unless another worker is at it; judge a whole file."""
        if not file.begin_hashing():
            return
        buffer = bytearray(HASHED_BYTES)
        with file.path.open("rb", buffering=0) as stream:
            while True:
                with file.lock:
                    if file.hashed not in file.done:
                        file.hashing = False
                        whole, file.judged = file.hashed == file.parts and not file.judged, file.hashed == file.parts
                        break
                self._hash_part(file, stream.fileno(), buffer)
                file.hashed += 1
        if whole:
            self._judge(file, work)

    def _hash_part(self, file: Incoming, descriptor: int, buffer: bytearray) -> None:
        offset, length = file.span(file.hashed)
        for start in range(offset, offset + length, len(buffer)):
            if self.stop.is_set():
                raise _StoppedError
            block = memoryview(buffer)[: offset + length - start]
            file.digest.update(block[: os.preadv(descriptor, [block], start)])

    def _judge(self, file: Incoming, work: deque[Step]) -> None:
        if file.digest.hexdigest() == file.entry.sha256:
            return
        if file.resumed:  # what an earlier run left may be what is wrong
            self.task.advance(-file.entry.size_bytes)
            file.restart()
            work.extend(self._plan(file))
            return
        file.discard()
        raise RefusedError(
            f"{file.key} in {self.store.place} is not what was published: sha256 {file.digest.hexdigest()}, "
            f"wanted {file.entry.sha256}",
            remedy=DAMAGED,
        )

    def _interrupt(self) -> None:
        self.stop.set()
        for stream in list(self.streams):
            stream.interrupt()


def _weight(error: BaseException) -> int:
    """What is said of several errors: a refusal before an error, and both before a worker that was only stopped."""
    if isinstance(error, RefusedError):
        return 0
    return 2 if isinstance(error, _StoppedError) else 1 if isinstance(error, ModelctlError) else 0
