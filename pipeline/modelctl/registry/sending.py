"""Sending files: several at once, each in parts, several parts at once, with memory for a fixed number of parts.

What is sent is hashed as it is read, and an object comes into being only when all of it is what was announced. An
upload that was interrupted goes on where the server can list its parts: those that are provably ours are read and
hashed, but not sent again. What breaks off is tried again with growing patience; then it is an error, and the parts
stay for the next run.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from modelctl.errors import RefusedError
from modelctl.model.s3_faults import StoreError, StoreUnavailableError
from modelctl.model.tree import FileEntry
from modelctl.registry.checked import CheckedParts
from modelctl.registry.multipart import ListedPart, MultipartUpload, open_uploads
from modelctl.registry.store import ObjectStore

PART_BYTES = 8 << 20
MAX_PARTS = 9000
"""S3 allows 10,000; the parts of larger files are larger."""
PARTS_AT_ONCE = 6
LARGE_FILES_AT_ONCE = 2
"""Enough to fill the parts; some servers hold in memory what is not put together yet."""
SMALL_FILES_AT_ONCE = 6
"""Of those that are one part: each waits for an answer most of its time."""
PART_SILENCE_S = 60.0
"""Longest silence of the server about one part, and so until Ctrl-C is heeded."""
PATIENCE_S = (1.0, 2.0, 4.0, 8.0)
"""Waits between the tries of one request, behind those of the connection itself."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Sending:
    """A file, what it must be, and the key that it will have."""

    key: str
    path: Path
    entry: FileEntry


def send_files(store: ObjectStore, files: Sequence[Sending], advance: Callable[[float], None]) -> None:
    """Send every file, the largest first. `advance` is told of bytes, those that need not be sent again too.

    Raises `RefusedError` when a file is not what its entry says (its object then does not exist), `StoreError`.
    """
    largest = max((min(item.entry.size_bytes, _part_bytes(item.entry)) for item in files), default=0)
    sender = _Sender(store, advance, buffer_bytes=largest)
    large = ThreadPoolExecutor(LARGE_FILES_AT_ONCE, thread_name_prefix="send")
    small = ThreadPoolExecutor(SMALL_FILES_AT_ONCE, thread_name_prefix="send")
    try:
        jobs = [
            (large if item.entry.size_bytes > PART_BYTES else small).submit(sender.send, item)
            for item in sorted(files, key=lambda f: -f.entry.size_bytes)
        ]
        for job in wait(jobs, return_when=FIRST_EXCEPTION).done:
            job.result()
    except BaseException:
        sender.stop.set()
        raise
    finally:
        for readers in (large, small):
            readers.shutdown(cancel_futures=True)
        sender.pool.shutdown()


def _part_bytes(entry: FileEntry) -> int:
    return max(PART_BYTES, -(-entry.size_bytes // MAX_PARTS))


class _StoppedError(Exception):
    """Another file failed, or the person pressed Ctrl-C."""


class _OtherBytesError(Exception):
    """An upload that was found has parts that are not provably those of this file."""


class _Sender:
    def __init__(self, store: ObjectStore, advance: Callable[[float], None], *, buffer_bytes: int) -> None:
        self.store = store
        self.brisk = replace(store.server, silence_s=PART_SILENCE_S)
        self.pool = ThreadPoolExecutor(PARTS_AT_ONCE, thread_name_prefix="part")
        self.stop = threading.Event()
        self._buffers: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        for _ in range(PARTS_AT_ONCE):  # reused: memory that is freed and asked for again in threads piles up
            self._buffers.put(bytearray(buffer_bytes))
        self._advance = advance
        self._lock = threading.Lock()

    def advance(self, amount: float) -> None:
        with self._lock:
            self._advance(amount)

    def send(self, item: Sending) -> None:
        if item.entry.size_bytes <= PART_BYTES:
            self._whole(item)
            return
        upload, listed = self._found(item.key)
        if upload is None or not self._went_on(item, upload, listed):
            begun = self._patiently(
                lambda: MultipartUpload.start(self.brisk, self.store.bucket, item.key, {"sha256": item.entry.sha256})
            )
            self._in_parts(item, begun, {})

    def _whole(self, item: Sending) -> None:
        buffer = self._free_buffer(set())
        try:
            with _parts_of(item) as parts:
                data = parts.read(buffer)
            self._patiently(lambda: self.store.put_whole(item.key, data, sha256=item.entry.sha256))
            self.advance(len(data))
        finally:
            self._buffers.put(buffer)

    def _went_on(self, item: Sending, upload: MultipartUpload, listed: dict[int, ListedPart]) -> bool:
        """Whether an upload that was found could be gone on with; one that is of other bytes is given up."""
        try:
            self._in_parts(item, upload, listed)
        except _OtherBytesError:
            with suppress(StoreError):
                upload.abort()
            return False
        return self._arrived(item)  # the upload may have been begun for other bytes, and its object says so

    def _arrived(self, item: Sending) -> bool:
        there = self.store.stat(item.key)
        return (
            there is not None
            and there.size_bytes == item.entry.size_bytes
            and there.sha256 in (None, item.entry.sha256)
        )

    def _found(self, key: str) -> tuple[MultipartUpload | None, dict[int, ListedPart]]:
        """An upload of this key that can go on; all others are given up."""
        best: MultipartUpload | None = None
        listed: dict[int, ListedPart] = {}
        with suppress(StoreError):  # a server that can't tell of them: the file is sent from its beginning
            for upload in open_uploads(self.brisk, self.store.bucket, key):
                if upload.key == key:
                    parts = upload.parts()
                    worse = upload if len(parts) <= len(listed) else best
                    if worse is not upload:
                        best, listed = upload, parts
                    if worse is not None:
                        worse.abort()
        return best, listed

    def _in_parts(self, item: Sending, upload: MultipartUpload, listed: dict[int, ListedPart]) -> None:
        """Send what is not listed, and put all together. Raises `_OtherBytesError` when a listed part is not ours."""
        jobs: dict[int, Future[str]] = {}
        under_way: set[Future[str]] = set()
        kept: dict[int, str] = {}
        with _parts_of(item) as parts:
            try:
                for number in range(1, parts.count + 1):
                    buffer = self._free_buffer(under_way)
                    handed_over = False
                    try:
                        data = parts.read(buffer)
                        found = listed.get(number)
                        if found is None:
                            jobs[number] = self.pool.submit(self._put, upload, number, data, buffer)
                            under_way.add(jobs[number])
                            handed_over = True
                        elif found.holds(data):
                            kept[number] = found.etag
                            self.advance(len(data))
                        else:
                            raise _OtherBytesError
                    finally:
                        if not handed_over:
                            self._buffers.put(buffer)
                etags = kept | {number: job.result() for number, job in jobs.items()}
            except _OtherBytesError:
                wait(jobs.values())
                told = [*kept, *(number for number, job in jobs.items() if not job.exception())]
                self.advance(-sum(parts.size_of(number) for number in told))
                raise
            except RefusedError:
                wait(jobs.values())
                with suppress(StoreError):
                    upload.abort()
                raise
        self._complete(upload, etags, item)

    def _complete(self, upload: MultipartUpload, etags: dict[int, str], item: Sending) -> None:
        # the full patience with silence: putting a large object together takes some servers minutes
        slow = replace(upload, server=self.store.server)
        try:
            self._patiently(lambda: slow.complete(etags))
        except StoreUnavailableError:
            raise
        except StoreError as error:  # done by a try whose answer was lost, or by another publisher of the same bytes
            there = self.store.stat(item.key)
            if there is None or (there.size_bytes, there.sha256) != (item.entry.size_bytes, item.entry.sha256):
                raise _someone_else(item.key) from error

    def _free_buffer(self, under_way: set[Future[str]]) -> bytearray:
        """A buffer, as soon as one is free; raises what one of the parts raised meanwhile."""
        while True:
            self._unless_stopped()
            for job in [job for job in under_way if job.done()]:
                under_way.remove(job)
                job.result()
            with suppress(queue.Empty):
                return self._buffers.get(timeout=0.1)

    def _put(self, upload: MultipartUpload, number: int, data: memoryview, buffer: bytearray) -> str:
        try:
            etag = self._patiently(lambda: upload.put(number, data))
            self.advance(len(data))
            return etag
        finally:
            self._buffers.put(buffer)

    def _patiently(self, ask: Callable[[], T]) -> T:
        for pause_s in PATIENCE_S:
            self._unless_stopped()
            try:
                return ask()
            except StoreUnavailableError:
                self.stop.wait(pause_s)
        self._unless_stopped()
        return ask()

    def _unless_stopped(self) -> None:
        if self.stop.is_set():
            raise _StoppedError


def _parts_of(item: Sending) -> CheckedParts:
    return CheckedParts(item.path, item.entry, part_bytes=_part_bytes(item.entry))


def _someone_else(key: str) -> RefusedError:
    return RefusedError(
        f"{key} is not what was sent: someone else writes to the same release at the same time",
        remedy="find the other publication of it, then run the same command again",
    )
