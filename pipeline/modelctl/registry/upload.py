"""Bringing the files of a release into the bucket: what is there already stays, what the bucket holds is copied.

Until a release has its manifest its prefix is a building site: debris of an interrupted attempt is swept away, and
objects without a sha256 in their metadata are sent anew. Afterwards only what is missing or was overwritten is put
back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from modelctl.errors import RefusedError
from modelctl.model.release import VERSION_PATTERN
from modelctl.model.s3_faults import StoreError, StoreUnavailableError
from modelctl.model.tree import FileEntry, Tree
from modelctl.progress import Progress
from modelctl.registry.contents import REQUESTS_AT_ONCE, find_contents, holds
from modelctl.registry.manifest import MANIFESTS, Manifest, object_prefix
from modelctl.registry.multipart import abandon_uploads
from modelctl.registry.sending import PART_BYTES, Sending, send_files
from modelctl.registry.store import ObjectStore, StoredObject
from modelctl.registry.versions import version_order

NEWEST = 20
"""So many manifests are read where hints are missing, however many versions there are."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What happens to one file: sent, copied on the server from `source`, or kept as it is there."""

    entry: FileEntry
    action: Literal["send", "copy", "keep"]
    source: StoredObject | None = None


def plan_upload(
    store: ObjectStore,
    tree: Tree,
    *,
    name: str,
    version: str,
    published: bool,
    staged: Mapping[str, StoredObject] | None = None,
) -> tuple[Step, ...]:
    """One step for each file, in the tree's order. `published`: the release has its manifest. `staged`: by sha256,
    objects whose bytes were read."""
    prefix = object_prefix(name, version)
    sizes = store.sizes(prefix)

    def kept(entry: FileEntry) -> bool:
        key = prefix + entry.path
        return sizes.get(key) == entry.size_bytes and _is_there(store, key, entry, without_metadata=published)

    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        is_kept = dict(zip((entry.path for entry in tree.files), pool.map(kept, tree.files), strict=True))
    missing = [entry for entry in tree.files if not is_kept[entry.path]]
    sources = dict(staged or {})
    sources |= find_contents(store, [entry for entry in missing if entry.sha256 not in sources])
    unknown = [entry for entry in missing if entry.size_bytes and entry.sha256 not in sources]
    if unknown:
        sources |= _in_other_versions(store, unknown, name=name, version=version)
    return tuple(_step(entry, kept=is_kept[entry.path], source=sources.get(entry.sha256)) for entry in tree.files)


def carry_out(
    store: ObjectStore, tree: Tree, steps: Sequence[Step], *, name: str, version: str, progress: Progress
) -> tuple[Step, ...]:
    """Do the steps; returns what was done: what the server would not copy was sent.

    Raises `RefusedError` for a file whose bytes have changed, `StoreError`.
    """
    prefix = object_prefix(name, version)
    work = [step for step in steps if step.action != "keep"]
    done: list[Step] = []
    with progress.task("upload", total=sum(step.entry.size_bytes for step in work), unit="bytes") as task:
        copies = [step for step in work if step.action == "copy"]
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
            made = pool.map(lambda step: _copied(store, step, prefix), copies)
            for step, copied in zip(copies, made, strict=True):
                if copied:
                    task.advance(step.entry.size_bytes)
                done.append(step if copied else Step(entry=step.entry, action="send"))
        done += [step for step in work if step.action == "send"]
        _require_here(store, tree, done)
        files = [
            Sending(key=prefix + step.entry.path, path=tree.location(step.entry.path), entry=step.entry)
            for step in done
            if step.action == "send"
        ]
        task.describe(f"{len(files)} files" if len(files) != 1 else files[0].entry.path)
        send_files(store, files, task.advance)
    by_path = {step.entry.path: step for step in done}
    return tuple(by_path.get(step.entry.path, step) for step in steps)


def sweep(store: ObjectStore, tree: Tree, *, name: str, version: str, progress: Progress) -> Mapping[str, int]:
    """Remove objects that do not belong below the prefix: they are left from an attempt that never became a release.

    Returns the sizes in bytes of the others, by key.
    """
    prefix = object_prefix(name, version)
    sizes = store.sizes(prefix)
    for key in sorted(sizes.keys() - {prefix + entry.path for entry in tree.files}):
        progress.note(f"removing {key}: left from an attempt that was never published")
        store.remove(key)
    return sizes


def end_uploads(store: ObjectStore, tree: Tree, *, name: str, version: str) -> None:
    """Give up the uploads in parts that an attempt left which never became a release."""
    prefix = object_prefix(name, version)
    abandon_uploads(store.server, store.bucket, prefix)
    in_parts = [prefix + entry.path for entry in tree.files if entry.size_bytes > PART_BYTES]
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for _ in pool.map(lambda key: abandon_uploads(store.server, store.bucket, key), in_parts):
            pass


def look_again(store: ObjectStore, tree: Tree, *, name: str, version: str, progress: Progress) -> None:
    """Make sure that the prefix holds the tree and nothing else, just before the manifest says so.

    Raises `RefusedError` when an object is not what was sent: someone else is writing to the same release.
    """
    sizes = sweep(store, tree, name=name, version=version, progress=progress)
    prefix = object_prefix(name, version)
    wanted = {prefix + entry.path: entry for entry in tree.files}

    def right(key: str) -> bool:
        sized = sizes.get(key) == wanted[key].size_bytes
        return sized and _is_there(store, key, wanted[key], without_metadata=True)

    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for key, is_right in zip(wanted, pool.map(right, wanted), strict=True):
            if not is_right:
                raise RefusedError(
                    f"{key} is not what was sent a moment ago: someone else writes to {name}@{version} "
                    "at the same time",
                    remedy=f"find the other publication of {name}@{version}, then run the same command again",
                )


def _require_here(store: ObjectStore, tree: Tree, steps: Sequence[Step]) -> None:
    """Raise `StoreError` for a file of a staged tree that would have to be sent, and lies on another machine."""
    for step in steps:
        if step.action == "send" and not tree.location(step.entry.path).is_file():
            raise StoreError(
                f"{step.entry.path} is staged in {store.place}, which did not copy it, and is not on this machine",
                remedy="run the same command again, or publish on the machine that made the model",
            )


def _step(entry: FileEntry, *, kept: bool, source: StoredObject | None) -> Step:
    if kept:
        return Step(entry=entry, action="keep")
    return Step(entry=entry, action="copy" if source else "send", source=source)


def _copied(store: ObjectStore, step: Step, prefix: str) -> bool:
    """Copy on the server; False when it would not, or the source is no longer what was looked at."""
    if step.source is None:
        return False
    try:
        store.copy(step.source, prefix + step.entry.path, step.entry.sha256)
    except StoreUnavailableError:
        raise
    except StoreError:
        return False
    there = store.stat(prefix + step.entry.path)
    if there is None or there.size_bytes != step.entry.size_bytes:
        return False
    return store.stat(step.source.key) == step.source  # not every server heeds the condition that it is


def _is_there(store: ObjectStore, key: str, entry: FileEntry, *, without_metadata: bool) -> bool:
    """Whether an object is known to hold a file."""
    found = store.stat(key)
    if found is None or found.size_bytes != entry.size_bytes:
        return False
    return found.sha256 == entry.sha256 or (found.sha256 is None and without_metadata)


def _in_other_versions(
    store: ObjectStore, entries: Sequence[FileEntry], *, name: str, version: str
) -> Mapping[str, StoredObject]:
    """What the manifests of this name's newest other versions list, by sha256: their hints may have been removed."""
    prefix = f"{MANIFESTS}{name}/"
    versions = (key.removeprefix(prefix).removesuffix(".json") for key in store.sizes(prefix))
    others = sorted((v for v in versions if v != version and re.fullmatch(VERSION_PATTERN, v)), key=version_order)[
        -NEWEST:
    ]
    keys: dict[str, str] = {}
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        read = pool.map(lambda other: _files_of(store, name, other), others)
        for files in read:
            keys |= files
        candidates = [(entry, keys[entry.sha256]) for entry in entries if entry.sha256 in keys]
        there = pool.map(lambda item: store.stat(item[1]), candidates)
        return {
            entry.sha256: found
            for (entry, _), found in zip(candidates, there, strict=True)
            if found is not None and holds(found, entry)
        }


def _files_of(store: ObjectStore, name: str, version: str) -> Mapping[str, str]:
    content = store.read(f"{MANIFESTS}{name}/{version}.json")
    if content is None:
        return {}
    prefix = object_prefix(name, version)
    served = Manifest.from_json(content, name=name, version=version).served
    return {item.sha256: prefix + item.path for item in served.files}
