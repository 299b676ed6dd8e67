"""A served tree that one runner made and another publishes: kept in the bucket until then, and copied there.

`.modelctl/staging/<tree digest>/files/…` holds the files, `tree.json` beside them lists them and is written last. The
list proves itself: its digest is the one that the report names. Whoever may write there need not be trusted: the
publication reads every staged byte, and copies only the state of an object that it has read.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from modelctl.errors import RefusedError
from modelctl.files import write_whole
from modelctl.model.tree import DIGEST_PREFIX, FileEntry, Tree
from modelctl.progress import SILENT, Progress, Task
from modelctl.registry.contents import REQUESTS_AT_ONCE, holds
from modelctl.registry.listed import FileList
from modelctl.registry.manifest import as_tree
from modelctl.registry.sending import Sending, send_files
from modelctl.registry.store import ObjectStore, StoredObject

STAGING = ".modelctl/staging/"
LIST_NAME = "tree.json"
SMALL_BYTES = 32 << 20
"""Files up to this size are brought to the publishing machine: the model card, configurations, the tokenizer."""
READERS = 4


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A tree whose bytes were read in the bucket."""

    tree: Tree
    """Its root holds the small files only."""
    sources: Mapping[str, StoredObject]
    """By sha256: the object that was read, in the state in which it was."""


@dataclass(frozen=True, kw_only=True)
class StagedArea:
    """What the bucket keeps of one tree."""

    digest: str
    size_bytes: int
    newest: datetime.datetime | None
    """When the youngest object was written; None when the server does not say."""

    def older_than(self, age: datetime.timedelta, now: datetime.datetime) -> bool:
        """Whether nothing was written there for so long."""
        return self.newest is not None and now - self.newest > age


def stage(store: ObjectStore, tree: Tree, progress: Progress = SILENT) -> int:
    """Bring a hashed tree into its staging area; returns the bytes that were sent. What is there is not sent again.

    Raises `RefusedError` for a file that has changed since it was hashed, `StoreError`.
    """
    prefix = _prefix(tree.digest)
    store.ensure_bucket()
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        there = pool.map(lambda entry: holds(store.stat(f"{prefix}files/{entry.path}"), entry), tree.files)
        missing = [entry for entry, is_there in zip(tree.files, there, strict=True) if not is_there]
    files = [
        Sending(key=f"{prefix}files/{entry.path}", path=tree.location(entry.path), entry=entry) for entry in missing
    ]
    total = sum(entry.size_bytes for entry in missing)
    with progress.task("stage", total=total, unit="bytes") as task:
        send_files(store, files, task.advance)
    store.put_whole(prefix + LIST_NAME, FileList.of(tree).to_json().encode())
    return total


def read_staged(store: ObjectStore, digest: str, folder: Path, progress: Progress = SILENT) -> Staged | None:
    """The staged tree of this digest, every byte read and hashed; None when none is staged.

    Small files are written below `folder`. Raises `RefusedError` when list or bytes are others, `StoreError`.
    """
    prefix = _prefix(digest)
    content = store.read(prefix + LIST_NAME)
    if content is None:
        return None
    try:
        listed = as_tree(FileList.model_validate_json(content).files)
    except ValidationError as error:
        raise _other(store, prefix + LIST_NAME, str(error.errors(include_url=False)[0]["msg"])) from error
    if listed.digest != digest:
        raise _other(store, prefix + LIST_NAME, f"it lists {listed.digest}")
    tree = Tree(root=folder, files=listed.files)
    with (
        progress.task("read what is staged", total=tree.size_bytes, unit="bytes") as task,
        ThreadPoolExecutor(READERS) as pool,
    ):
        found = list(pool.map(lambda entry: _read(store, prefix, entry, folder, task), tree.files))
    sources = {e.sha256: there for e, there in zip(tree.files, found, strict=True) if e.size_bytes}
    return Staged(tree=tree, sources=sources)


def staged_areas(store: ObjectStore) -> list[StagedArea]:
    """Everything that is staged, by digest. Raises `StoreError`."""
    sizes: dict[str, int] = {}
    newest: dict[str, str] = {}
    for item in store.server.listing(store.bucket, STAGING) if store.exists() else ():
        digest = DIGEST_PREFIX + item.key.removeprefix(STAGING).partition("/")[0]
        sizes[digest] = sizes.get(digest, 0) + item.size_bytes
        newest[digest] = max(newest.get(digest, ""), item.modified)
    return [
        StagedArea(
            digest=digest,
            size_bytes=sizes[digest],
            newest=datetime.datetime.fromisoformat(newest[digest]) if newest[digest] else None,
        )
        for digest in sorted(sizes)
    ]


def unstage(store: ObjectStore, digest: str) -> None:
    """Remove what is staged of a tree, its list first; nothing there is fine. Raises `StoreError`."""
    prefix = _prefix(digest)
    store.remove(prefix + LIST_NAME)
    for key in store.sizes(prefix):
        store.remove(key)


def _read(store: ObjectStore, prefix: str, entry: FileEntry, folder: Path, task: Task) -> StoredObject:
    """Hash one staged object in the state that it has; its bytes go to the folder when they are few."""
    key = f"{prefix}files/{entry.path}"
    there = store.stat(key)
    if there is None or there.size_bytes != entry.size_bytes:
        raise _other(store, key, "it is not there" if there is None else f"it has {there.size_bytes} bytes")
    digest, kept = hashlib.sha256(), bytearray()
    for block in store.server.stream(store.bucket, key, etag=there.etag) if entry.size_bytes else ():
        digest.update(block)
        task.advance(len(block))
        if entry.size_bytes <= SMALL_BYTES:
            kept += block
    if digest.hexdigest() != entry.sha256:
        raise _other(store, key, f"its sha256 is {digest.hexdigest()}")
    if entry.size_bytes <= SMALL_BYTES:
        target = folder / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, bytes(kept))
    return there


def _prefix(digest: str) -> str:
    return f"{STAGING}{digest.removeprefix(DIGEST_PREFIX)}/"


def _other(store: ObjectStore, key: str, what: str) -> RefusedError:
    return RefusedError(
        f"{key} in {store.place} is not what was admitted: {what}",
        remedy="find out who writes to the staging area, then admit with --stage again",
    )
