"""Files of one Hub commit in a content store, hashed while they arrive and named by what the Hub says they hash to.

What has arrived of a file lies in `partial/`, where the next run goes on, whatever ended this one. It moves to `blobs/`
when its size and hash are right, so a name there never holds anything else, and is hashed again before it is used. A
snapshot is a folder of hard links to blobs, which appears whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from modelctl.errors import CannotDecideError, RefusedError
from modelctl.model.blobs import disk_errors, lay_out, require_space
from modelctl.model.hub import Hub
from modelctl.model.hub_errors import TransientError, UnreachableError
from modelctl.model.listing import Upstream, UpstreamFile, file_digest
from modelctl.model.partial import Part, open_part, prune_parts
from modelctl.model.retries import Retries
from modelctl.model.transfer import StoppedError, Transfer
from modelctl.progress import Progress

WORKERS = 4
STEADY_BYTES = 64 << 20
"""After so many bytes in one answer a break counts as the first one."""
LOCK_POLL_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Store:
    """A content store at `root`: `blobs/<hash>`, `partial/<hash>` and `snapshots/<org>--<name>/<commit>/`."""

    root: Path

    def blob(self, file: UpstreamFile) -> Path:
        """Where a file's bytes are kept: 64 hex digits for LFS files, 40 for others, as the Hub's own cache does."""
        return self.root / "blobs" / file.digest

    def part(self, file: UpstreamFile) -> Path:
        """Where a file's bytes are until all have arrived."""
        return self.root / "partial" / file.digest

    def snapshot(self, upstream: Upstream) -> Path:
        """Where a commit's files are laid out."""
        return self.root / "snapshots" / upstream.repo_id.replace("/", "--") / upstream.commit


def fetch(hub: Hub, upstream: Upstream, store: Store, progress: Progress) -> Path:
    """Bring every file of the commit into the store and return the snapshot folder.

    Raises `RefusedError` when bytes are not what the Hub listed, `CannotDecideError` when they cannot be had or kept.
    """
    wanted = list({file.digest: file for file in upstream.files.values()}.values())
    total = sum(file.size_bytes for file in wanted)
    with disk_errors(store.root):
        for folder in ("blobs", "partial"):
            (store.root / folder).mkdir(parents=True, exist_ok=True)
        if freed := prune_parts(store.root / "partial", wanted={file.digest for file in wanted}):
            progress.note(f"{freed / 1e6:.1f} MB of downloads that nobody went on with for a week were removed")
        missing = [file for file in wanted if not store.blob(file).is_file()]
        require_space(store.root, sum(file.size_bytes - _part_bytes(store, file) for file in missing))
        with progress.task(f"download {upstream.repo_id}", total=total, unit="bytes") as task:
            transfer = Transfer(hub=hub, upstream=upstream, task=task)
            _fetch_all(_Worker(transfer=transfer, store=store, progress=progress, count=len(wanted)), wanted)
        return lay_out(store.snapshot(upstream), {path: store.blob(file) for path, file in upstream.files.items()})


def _fetch_all(worker: _Worker, wanted: Iterable[UpstreamFile]) -> None:
    pool = ThreadPoolExecutor(WORKERS)
    try:
        jobs = [pool.submit(worker.ensure, number, file) for number, file in enumerate(wanted, 1)]
        errors = [job.exception() for job in wait(jobs, return_when=FIRST_EXCEPTION).done]
        for error in sorted(filter(None, errors), key=lambda error: not isinstance(error, RefusedError)):
            raise error
    finally:
        worker.transfer.interrupt()
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, kw_only=True)
class _Worker:
    transfer: Transfer
    store: Store
    progress: Progress
    count: int
    """Files of the whole download."""

    def ensure(self, number: int, file: UpstreamFile) -> None:
        """Bring one file into the store, or find it there."""
        told = False
        self.transfer.task.describe(f"file {number} of {self.count}: {file.path}")
        while not self._is_here(file):
            with open_part(self.store.part(file), file, self._advance) as part:
                if part is not None:
                    self._complete(part)
                    return
            if not told:
                self.progress.note(f"another process downloads {file.path}: waiting for it")
                told = True
            self._pause(LOCK_POLL_S)

    def _is_here(self, file: UpstreamFile) -> bool:
        blob = self.store.blob(file)
        if not blob.is_file():
            return False
        if file_digest(blob, file, self._advance) == file.digest:
            return True
        self.transfer.task.advance(-blob.stat().st_size)
        return False

    def _advance(self, size_bytes: int) -> None:
        self.transfer.require_going()
        self.transfer.task.advance(size_bytes)

    def _pause(self, wait_s: float) -> None:
        if self.transfer.stop.wait(wait_s):
            raise StoppedError

    def _complete(self, part: Part) -> None:
        """Receive what is missing, again and again within bounds, and keep the file when it is right.

        A wrong hash over pieces is one wrong piece: the file is taken anew, once. A wrong hash of a whole answer is a
        changed file.
        """
        file, retries, begun_anew = part.file, Retries(), False
        while True:
            if part.received >= file.size_bytes:
                if part.received == file.size_bytes and part.digest.hexdigest() == file.digest:
                    part.keep_as(self.store.blob(file))
                    return
                if not part.pieced or begun_anew:
                    raise self._changed(part)
                begun_anew = True
                self.transfer.task.advance(-part.restart())
            before, error = part.received, None
            try:
                self.transfer.receive(part)
            except (TransientError, UnreachableError) as failure:
                error = failure
            if part.received >= file.size_bytes:
                continue
            if part.received - before >= STEADY_BYTES:
                retries.progressed()
            self._wait(part, retries, error)

    def _wait(self, part: Part, retries: Retries, error: TransientError | UnreachableError | None) -> None:
        """Wait before the next try. Raises why there is none."""
        self.transfer.require_going()
        wait_s = retries.next_wait_s(error.wait_s if isinstance(error, TransientError) else None)
        if wait_s is None:
            raise error or CannotDecideError(
                f"{self.transfer.upstream.repo_id}: {part.file.path}: {part.received} of {part.file.size_bytes} bytes "
                f"arrived, and the connection broke {retries.failures} times",
                remedy="run the same command again: it goes on where it stopped",
            )
        why = error.message if error is not None else f"{part.file.path}: the connection broke"
        self.progress.note(f"{why}; asking again in {wait_s:.0f} s")
        self._pause(wait_s)

    def _changed(self, part: Part) -> RefusedError:
        file, upstream = part.file, self.transfer.upstream
        found = f"more than {file.size_bytes} bytes" if part.received > file.size_bytes else part.digest.hexdigest()
        part.discard()
        return RefusedError(
            f"{upstream.repo_id}@{upstream.commit[:12]}: {file.path}: got {found}, "
            f"the Hub lists {file.digest} with {file.size_bytes} bytes",
            remedy="the bytes were changed on the way: check HF_ENDPOINT and proxies, then run it again",
        )


def _part_bytes(store: Store, file: UpstreamFile) -> int:
    try:
        return min(store.part(file).stat().st_size, file.size_bytes)
    except FileNotFoundError:
        return 0
