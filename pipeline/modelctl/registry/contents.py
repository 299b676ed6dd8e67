"""Which object of the bucket holds a file already: one small object for a sha256, `.modelctl/contents/<sha256>`.

Such a hint names a key and nothing else. It is written after the manifest of the release that brought the bytes, and is
never believed: the object that it names is looked at, and counts only with the same size and sha256. A hint that is
lost or names what is gone costs a file sent again. So a look-up takes one small request a file, with two releases as
with two thousand, and two publishers need no lock. Of a release with very many files only the largest have hints: to
send a small file takes one request too.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from modelctl.model.tree import FileEntry
from modelctl.registry.store import ObjectStore, StoredObject

CONTENTS = ".modelctl/contents/"
HINTED = 256
"""So many files of a release have hints. The manifests of other versions tell where the rest of them is."""
REQUESTS_AT_ONCE = 8


def hinted(entries: Iterable[FileEntry]) -> list[FileEntry]:
    """The files that have hints: the largest, one for each sha256; empty ones have no bytes to look for."""
    by_sha256 = {entry.sha256: entry for entry in entries if entry.size_bytes}
    return heapq.nlargest(HINTED, by_sha256.values(), key=lambda entry: (entry.size_bytes, entry.sha256))


def find_contents(store: ObjectStore, entries: Sequence[FileEntry]) -> Mapping[str, StoredObject]:
    """By sha256: an object that holds the bytes, for those of the largest that have one. Raises `StoreError`."""
    wanted = hinted(entries)
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        found = pool.map(lambda entry: _look_up(store, entry), wanted)
        return {entry.sha256: there for entry, there in zip(wanted, found, strict=True) if there is not None}


def remember_contents(store: ObjectStore, entries: Iterable[FileEntry], prefix: str) -> None:
    """Write a hint for the largest files below `prefix` that no other object is known to hold. Raises `StoreError`."""
    wanted = hinted(entries)
    known = find_contents(store, wanted)
    missing = [entry for entry in wanted if entry.sha256 not in known]
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for _ in pool.map(lambda e: store.put_whole(CONTENTS + e.sha256, (prefix + e.path).encode()), missing):
            pass


def holds(there: StoredObject | None, entry: FileEntry) -> bool:
    """Whether an object is known to hold a file: the same size, and our own sha256 in its metadata."""
    return there is not None and (there.size_bytes, there.sha256) == (entry.size_bytes, entry.sha256)


def _look_up(store: ObjectStore, entry: FileEntry) -> StoredObject | None:
    hint = store.read(CONTENTS + entry.sha256)
    key = hint.decode(errors="replace") if hint else ""
    if not key or key.startswith(".modelctl/") or not key.isprintable():
        return None
    there = store.stat(key)
    return there if holds(there, entry) else None
