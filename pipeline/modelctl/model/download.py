"""Files of one Hub commit in a content store, hashed while they arrive and named by what the Hub says they hash to.

A blob is written to a temporary file and renamed when its size and hash are right, so a name in `blobs/` never holds
anything else; one that is there already is hashed again before it is used. A snapshot is a folder of hard links to
blobs.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from modelctl.errors import CannotDecideError, RefusedError
from modelctl.model.hub import TIMEOUT_S, Hub, client_error, explain
from modelctl.model.listing import Upstream, UpstreamFile, file_digest, new_digest
from modelctl.progress import Progress, Task

WORKERS = 4
ATTEMPTS = 3
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Store:
    """A content store at `root`: `blobs/<hash>` and `snapshots/<org>--<name>/<commit>/`."""

    root: Path

    def blob(self, file: UpstreamFile) -> Path:
        """Where a file's bytes are kept: 64 hex digits for LFS files, 40 for others, as the Hub's own cache does."""
        return self.root / "blobs" / file.digest

    def snapshot(self, upstream: Upstream) -> Path:
        """Where a commit's files are laid out."""
        return self.root / "snapshots" / upstream.repo_id.replace("/", "--") / upstream.commit


class _StoppedError(Exception):
    """Another worker failed, or the person pressed Ctrl-C."""


def fetch(hub: Hub, upstream: Upstream, store: Store, progress: Progress) -> Path:
    """Bring every file of the commit into the store and return the snapshot folder.

    Raises `RefusedError` when bytes are not what the Hub listed, `CannotDecideError` when they cannot be had or kept.
    """
    total = sum(file.size_bytes for file in upstream.files.values())
    wanted = {file.digest: file for file in upstream.files.values()}.values()
    with _disk_errors(store.root):
        (store.root / "blobs").mkdir(parents=True, exist_ok=True)
        _require_space(store, wanted)
        with progress.task(f"download {upstream.repo_id}", total=total, unit="bytes") as task:
            _fetch_all(_Worker(hub=hub, upstream=upstream, store=store, task=task), wanted)
        return _lay_out(upstream, store)


def _fetch_all(worker: _Worker, wanted: Iterable[UpstreamFile]) -> None:
    pool = ThreadPoolExecutor(WORKERS)
    try:
        jobs = [pool.submit(worker.ensure, file) for file in wanted]
        for job in wait(jobs, return_when=FIRST_EXCEPTION).done:
            job.result()
    finally:
        worker.interrupt()
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, kw_only=True)
class _Worker:
    hub: Hub
    upstream: Upstream
    store: Store
    task: Task
    stop: Event = field(default_factory=Event)
    sockets: set[socket.socket] = field(default_factory=set)
    """Connections that a worker waits on."""

    def interrupt(self) -> None:
        """End every worker at once, also one that waits for a Hub that says nothing."""
        self.stop.set()
        for connection in list(self.sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def ensure(self, file: UpstreamFile) -> None:
        """Bring one file into the store, or find it there."""
        blob = self.store.blob(file)
        if blob.is_file() and file_digest(blob, file) == file.digest:
            self.task.advance(file.size_bytes)
            return
        self.task.describe(file.path)
        received = 0
        for attempt in range(ATTEMPTS):
            if attempt and self.stop.wait(attempt):
                raise _StoppedError
            received = self._attempt(file, blob)
            if received == file.size_bytes:
                return
            self.task.advance(-received)
        raise CannotDecideError(
            f"{self.upstream.repo_id}: {file.path}: {received} of {file.size_bytes} bytes arrived, {ATTEMPTS} times",
            remedy="run the same command again: finished files are kept",
        )

    def _attempt(self, file: UpstreamFile, blob: Path) -> int:
        """Download once, keep the blob when it is whole and right, and return the number of bytes received."""
        descriptor, name = tempfile.mkstemp(dir=blob.parent, prefix=f".{file.digest[:12]}.")
        part = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as sink:
                digest = new_digest(file, size_bytes=file.size_bytes)
                received = 0
                for block in self._blocks(file):
                    received += len(block)
                    if received > file.size_bytes:
                        break
                    digest.update(block)
                    sink.write(block)
                    self.task.advance(len(block))
            if received >= file.size_bytes:
                self._require_listed(file, received, digest.hexdigest())
                part.chmod(0o444)
                part.replace(blob)
            return received
        finally:
            part.unlink(missing_ok=True)

    def _blocks(self, file: UpstreamFile) -> Iterator[bytes]:
        """The bytes as they arrive; a connection that breaks after the first answer just ends them."""
        from huggingface_hub import get_session
        from huggingface_hub.utils import hf_raise_for_status

        url = self.hub.file_url(self.upstream.repo_id, self.upstream.commit, file.path)
        headers = self.hub.headers() | {"Accept-Encoding": "identity"}
        with (
            explain(self.hub.endpoint, self.upstream.repo_id, self.upstream.commit),
            get_session().stream("GET", url, headers=headers, timeout=TIMEOUT_S, follow_redirects=True) as answer,
        ):
            if answer.is_error:
                answer.read()
            hf_raise_for_status(answer)
            self._require_commit(file, [step.headers for step in (*answer.history, answer)])
            stream = answer.extensions.get("network_stream")
            connection = stream.get_extra_info("socket") if stream is not None else None
            if connection is not None:
                self.sockets.add(connection)
            try:
                for block in answer.iter_bytes(BLOCK_BYTES):
                    if self.stop.is_set():
                        raise _StoppedError
                    yield block
            except client_error():
                return
            finally:
                self.sockets.discard(connection)

    def _require_commit(self, file: UpstreamFile, headers: Iterable[Mapping[str, str]]) -> None:
        for header in headers:
            commit = header.get("X-Repo-Commit", self.upstream.commit)
            if commit != self.upstream.commit:
                raise CannotDecideError(
                    f"{self.hub.endpoint} sent {file.path} of commit {commit[:40]!a}, asked for {self.upstream.commit}",
                    remedy="check HF_ENDPOINT",
                )

    def _require_listed(self, file: UpstreamFile, received: int, digest: str) -> None:
        if received > file.size_bytes or digest != file.digest:
            found = f"more than {file.size_bytes} bytes" if received > file.size_bytes else digest
            raise RefusedError(
                f"{self.upstream.repo_id}@{self.upstream.commit[:12]}: {file.path}: got {found}, "
                f"the Hub lists {file.digest} with {file.size_bytes} bytes",
                remedy="the bytes were changed on the way: check HF_ENDPOINT and proxies, then run it again",
            )


def _require_space(store: Store, wanted: Iterable[UpstreamFile]) -> None:
    needed = sum(file.size_bytes for file in wanted if not store.blob(file).is_file())
    free = shutil.disk_usage(store.root).free
    if needed > free:
        raise CannotDecideError(
            f"{store.root}: {needed / 1e9:.1f} GB to download and {free / 1e9:.1f} GB free",
            remedy="free some space, or set state_dir (MODELCTL_STATE_DIR) to a larger disk",
        )


def _lay_out(upstream: Upstream, store: Store) -> Path:
    """Link the blobs under their names; a folder that is there already stays when it is exactly that."""
    target = store.snapshot(upstream)
    if target.is_dir() and _is_laid_out(target, upstream, store):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{upstream.commit[:12]}."))
    try:
        for file in upstream.files.values():
            location = staging / file.path
            location.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(store.blob(file), location)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
                    raise
                shutil.copyfile(store.blob(file), location)
        if target.exists():
            shutil.rmtree(target)
        staging.chmod(0o755)
        staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _is_laid_out(target: Path, upstream: Upstream, store: Store) -> bool:
    found = {path.relative_to(target).as_posix() for path in target.rglob("*") if not path.is_dir()}
    return found == set(upstream.files) and all(
        (target / path).samefile(store.blob(file)) for path, file in upstream.files.items()
    )


@contextmanager
def _disk_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise CannotDecideError(
            f"{root}: {error.strerror or error}",
            remedy="free some space and run the same command again: finished files are kept"
            if full
            else "set state_dir (MODELCTL_STATE_DIR) to a folder that can be written",
        ) from error
