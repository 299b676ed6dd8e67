"""A verified download: each file is hashed while it arrives, and the folder appears only when it is whole.

Files gather in a hidden folder beside the destination; an interrupted download goes on there, even within a file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from modelctl.errors import InputError, ModelctlError, RefusedError
from modelctl.model.s3_faults import StoreUnavailableError
from modelctl.model.tree import FileEntry
from modelctl.progress import SILENT, Progress
from modelctl.registry.manifest import Manifest, Served, manifest_key, object_prefix
from modelctl.registry.records import Record
from modelctl.registry.store import ObjectStore
from modelctl.registry.verify import verify_folder

ATTEMPTS = 5
BLOCK_BYTES = 1 << 20
DAMAGED = "the object was changed or damaged; modelctl publish of the same bytes puts it back"


def pull(
    store: ObjectStore,
    name: str,
    version: str,
    destination: Path,
    *,
    record: Record | None = None,
    digest: str | None = None,
    progress: Progress = SILENT,
) -> Served:
    """Bring a release's files into `destination`, which must be missing, empty or already this release.

    With the registry's `record`, or the tree digest that a deployment carries (`digest`), the bucket's manifest must
    name the same bytes. Raises `RefusedError` when any
    byte differs, `InputError` for an unknown release or a folder in use, `StoreError`, and `ModelctlError` when the
    disk is too full.
    """
    release_id = f"{name}@{version}"
    served = _served(store, name, version, record, digest)
    destination = destination.absolute()
    if destination.is_dir() and any(destination.iterdir()):
        verify_folder(served, destination, progress=progress).refuse_unless_whole(release_id)
        return served
    if destination.exists() and not destination.is_dir():
        raise InputError(f"{destination}: a file where a folder is wanted", remedy="name another folder")
    destination.parent.mkdir(parents=True, exist_ok=True)
    mark = served.tree_digest.removeprefix("sha256:")[:12]
    partial = destination.parent / f".{destination.name}.{mark}.partial"
    partial.mkdir(exist_ok=True)
    with _alone(partial):
        _remove_strangers(partial, served)
        _refuse_full_disk(partial, served)
        prefix = object_prefix(name, version)
        with progress.task("download", total=served.size_bytes, unit="bytes") as task:
            for entry in served.tree.files:
                task.describe(entry.path)
                _fetch_file(store, prefix + entry.path, entry, partial / entry.path, task.advance)
        if destination.exists():
            destination.rmdir()
        partial.rename(destination)
    return served


def _served(store: ObjectStore, name: str, version: str, record: Record | None, digest: str | None) -> Served:
    content = store.read(manifest_key(name, version))
    if content is None:
        raise InputError(
            f"{name}@{version} is not in {store.place}: it has no manifest there",
            remedy="modelctl list shows what is published; check store.bucket (modelctl config show)",
        )
    served = Manifest.from_json(content, name=name, version=version).served
    wanted = (("the record in git", record.served.tree_digest if record else None), ("--digest", digest))
    for whose, other in wanted:
        if other is not None and other != served.tree_digest:
            raise RefusedError(
                f"the bucket's manifest of {name}@{version} names {served.tree_digest}, {whose} {other}",
                remedy="someone wrote to the bucket past modelctl: restore the manifest, and check who may write there",
            )
    return served


def _fetch_file(store: ObjectStore, key: str, entry: FileEntry, target: Path, advance: Callable[[float], None]) -> None:
    there = store.stat(key)
    if there is None or there.size_bytes != entry.size_bytes:
        what = "missing" if there is None else f"{there.size_bytes} bytes long, wanted {entry.size_bytes}"
        raise RefusedError(f"{key} in {store.place} is not what was published: it is {what}", remedy=DAMAGED)
    target.parent.mkdir(parents=True, exist_ok=True)
    resumed = target.is_file() and target.stat().st_size > 0
    found = _fetch(store, key, entry, target, advance)
    if found != entry.sha256 and resumed:  # what an earlier attempt left may be what is wrong
        target.unlink()
        found = _fetch(store, key, entry, target, lambda _: None)
    if found != entry.sha256:
        target.unlink()
        raise RefusedError(
            f"{key} in {store.place} is not what was published: sha256 {found}, wanted {entry.sha256}",
            remedy=DAMAGED,
        )


def _fetch(store: ObjectStore, key: str, entry: FileEntry, target: Path, advance: Callable[[float], None]) -> str:
    """Bring a file to its full size, going on where it ends, and return the sha256 of it."""
    digest = hashlib.sha256()
    attempts = 0
    with target.open("a+b") as stream:
        stream.seek(0)
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
            advance(len(block))
        have = stream.tell()
        while have < entry.size_bytes:
            before = have
            try:
                for block in store.stream(key, offset=have):
                    stream.write(block)
                    digest.update(block)
                    advance(len(block))
                    have += len(block)
                    if have > entry.size_bytes:  # never fill the disk with what can't be right any more
                        break
            except StoreUnavailableError:
                attempts = 1 if have > before else attempts + 1
                if attempts == ATTEMPTS:
                    raise
                time.sleep(0.2 * 2**attempts)
            else:
                if have == before:
                    break
    return digest.hexdigest()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ModelctlError(f"another download works in {folder}", remedy="wait for it to end") from error
        yield
    finally:
        os.close(descriptor)


def _refuse_full_disk(partial: Path, served: Served) -> None:
    there = sum(path.stat().st_size for path in partial.rglob("*") if path.is_file())
    free = shutil.disk_usage(partial).free
    if served.size_bytes - there > free:
        raise ModelctlError(
            f"{partial.parent}: {served.size_bytes - there} bytes are still to come, and {free} are free",
            remedy="free some space, or name a folder on another disk; what has arrived is kept",
        )


def _remove_strangers(partial: Path, served: Served) -> None:
    wanted = served.tree.by_path
    for path in partial.rglob("*"):
        if path.is_symlink() or (path.is_file() and path.relative_to(partial).as_posix() not in wanted):
            path.unlink()
