"""The objects below an S3 prefix in the content store: hashed while they arrive, kept by what they hash to.

A prefix has no commit. What was listed is what is fetched: each request asks for the listed state of its object, and a
second listing at the end shows whether anything moved meanwhile. A part that an interrupted run left is hashed and
continued, if the object is still the same; finished objects are hashed again before they are used.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import BinaryIO

from modelctl.errors import CannotDecideError, RefusedError
from modelctl.files import write_whole
from modelctl.model.blobs import disk_errors, lay_out, require_space
from modelctl.model.s3_client import BLOCK_BYTES, Listed, S3Client, S3Stream
from modelctl.model.s3_faults import StoreUnavailableError
from modelctl.model.s3_listing import S3Listing, list_prefix
from modelctl.model.tree import hash_file
from modelctl.progress import Progress, Task

WORKERS = 4
SILENCE_S = 30.0
"""Longest silence of the server while it is read from, in seconds, and so until Ctrl-C is heeded."""
ATTEMPTS = 4
"""How often a connection may break in a row without a byte between."""


def fetch_prefix(client: S3Client, listing: S3Listing, root: Path, progress: Progress) -> Path:
    """Bring every object of the listing into the store at `root` and return a folder of them.

    Raises `RefusedError` when bytes are not what their publisher announced, `CannotDecideError` when the prefix moved
    meanwhile or the disk is full, `StoreError`.
    """
    with disk_errors(root):
        for name in ("blobs", "s3"):
            (root / name).mkdir(parents=True, exist_ok=True)
        with progress.task(f"download {listing.where}", total=listing.size_bytes, unit="bytes") as task:
            brisk = replace(client, silence_s=SILENCE_S, retries=1)
            worker = _Worker(client=brisk, bucket=listing.where.bucket, root=root, task=task)
            require_space(root, sum(worker.missing_bytes(item) for item in listing.files.values()))
            blobs = _fetch_all(worker, listing)
        if list_prefix(client, listing.where).state != listing.state:
            raise CannotDecideError(
                f"{listing.where} was written to while it was downloaded",
                remedy="run the same command again when nobody writes there: finished objects are kept",
            )
        return lay_out(root / "snapshots" / f"s3--{listing.where.bucket}" / listing.state[:40], blobs)


def _fetch_all(worker: _Worker, listing: S3Listing) -> dict[str, Path]:
    pool = ThreadPoolExecutor(WORKERS)
    try:
        jobs = {path: pool.submit(worker.ensure, path, item) for path, item in listing.files.items()}
        for job in wait(jobs.values(), return_when=FIRST_EXCEPTION).done:
            job.result()
        return {path: job.result() for path, job in jobs.items()}
    finally:
        worker.interrupt()
        pool.shutdown(cancel_futures=True)


class _StoppedError(Exception):
    """Another worker failed, or the person pressed Ctrl-C."""


@dataclass(frozen=True, kw_only=True)
class _Worker:
    client: S3Client
    bucket: str
    root: Path
    task: Task
    stop: Event = field(default_factory=Event)
    streams: set[S3Stream] = field(default_factory=set)
    """Answers that a worker waits on."""

    def interrupt(self) -> None:
        """End every worker at once, also one that waits for a server that says nothing."""
        self.stop.set()
        for stream in list(self.streams):
            stream.interrupt()

    def missing_bytes(self, item: Listed) -> int:
        """How much of an object may have to come."""
        part = self._note(item).with_suffix(".part")
        if self._kept(item) is not None:
            return 0
        return item.size_bytes - (part.stat().st_size if part.is_file() else 0)

    def ensure(self, path: str, item: Listed) -> Path:
        """Bring one object into the store, or find it there; returns where it is."""
        kept = self._kept(item)
        if kept is not None and hash_file(kept) == kept.name:
            self.task.advance(item.size_bytes)
            return kept
        self.task.describe(path)
        note = self._note(item)
        part = note.with_suffix(".part")
        with _alone(part) as stream:
            if not item.etag and not item.modified:
                stream.truncate(0)  # nothing says that it is still the same object
            sha256 = self._complete(item, stream)
            blob = self.root / "blobs" / sha256
            part.chmod(0o444)
            part.replace(blob)
        write_whole(note, sha256)
        return blob

    def _note(self, item: Listed) -> Path:
        """Where it is kept what an object in one state hashes to."""
        state = (self.client.endpoint, self.bucket, item.key, item.size_bytes, item.etag, item.modified)
        return self.root / "s3" / hashlib.sha256(repr(state).encode()).hexdigest()

    def _kept(self, item: Listed) -> Path | None:
        """The bytes that an earlier run kept of an object in this state; they may have been changed since."""
        note = self._note(item)
        if not note.is_file() or not (item.etag or item.modified):
            return None
        blob = self.root / "blobs" / note.read_text(encoding="ascii", errors="replace").strip()
        return blob if blob.is_file() and blob.stat().st_size == item.size_bytes else None

    def _complete(self, item: Listed, stream: BinaryIO) -> str:
        """Bring an object's file to its full size, going on where it ends; returns its sha256."""
        resumed = stream.seek(0, os.SEEK_END) > 0
        found, announced = self._append(item, stream)
        if resumed and announced not in (None, found):  # what an earlier run left may be what is wrong
            self.task.advance(-item.size_bytes)
            stream.truncate(0)
            found, announced = self._append(item, stream)
        if announced not in (None, found):
            stream.truncate(0)
            raise RefusedError(
                f"{item.key} in {self.client.place(self.bucket)}: sha256 {found}, its publisher announced {announced}",
                remedy="the object was changed or damaged: publish it again",
            )
        return found

    def _append(self, item: Listed, stream: BinaryIO) -> tuple[str, str | None]:
        """Fetch what is missing; returns the sha256 of all and the one that came with the object."""
        digest = hashlib.sha256()
        have = 0
        announced: str | None = None
        if stream.seek(0, os.SEEK_END) >= item.size_bytes:  # no answer would say what was announced
            stream.truncate(0)
        for block in self._written(stream):
            digest.update(block)
            have += len(block)
        attempts = 0
        while have < item.size_bytes:
            before = have
            answer = self.client.stream(self.bucket, item.key, offset=have, etag=item.etag)
            self.streams.add(answer)
            try:
                for block in answer:
                    if self.stop.is_set():
                        raise _StoppedError
                    have += len(block)
                    if have > item.size_bytes:
                        break
                    stream.write(block)
                    digest.update(block)
                    self.task.advance(len(block))
                announced = answer.sha256
                break  # a connection that breaks is an error: this is all that the server has
            except StoreUnavailableError:
                attempts = 1 if have > before else attempts + 1
                if attempts == ATTEMPTS:
                    raise
                if self.stop.wait(0.2 * 2**attempts):
                    raise _StoppedError from None
            finally:
                self.streams.discard(answer)
        stream.flush()
        if have != item.size_bytes:
            stream.truncate(0)
            raise CannotDecideError(
                f"{item.key} in {self.client.place(self.bucket)}: "
                f"{'more than ' if have > item.size_bytes else ''}{min(have, item.size_bytes)} bytes came, "
                f"{item.size_bytes} were listed",
                remedy="run the same command again; if it stays so, see the log of the object store",
            )
        return digest.hexdigest(), announced

    def _written(self, stream: BinaryIO) -> Iterator[bytes]:
        stream.seek(0)
        while block := stream.read(BLOCK_BYTES):
            self.task.advance(len(block))
            yield block


@contextmanager
def _alone(part: Path) -> Iterator[BinaryIO]:
    """A part, open for reading and appending, that no other run works on. Raises `CannotDecideError`."""
    with part.open("a+b") as stream:
        if not _locked(stream, part):
            raise CannotDecideError(f"{part}: another run downloads the same object", remedy="wait for it to end")
        try:
            yield stream
        finally:
            stream.flush()
            if not os.fstat(stream.fileno()).st_size and part.exists():
                part.unlink()


def _locked(stream: BinaryIO, part: Path) -> bool:
    """Lock the file, and see that the name still leads to it: whoever held it may have finished meanwhile."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(stream.fileno()), part.stat())
    except (BlockingIOError, FileNotFoundError):
        return False
