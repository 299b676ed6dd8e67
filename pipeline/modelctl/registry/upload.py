"""Bringing the files of a release into the bucket: what is there already stays, what another release holds is copied.

Until a release has its manifest its prefix is a building site: debris of an interrupted attempt is swept away, and
objects without a sha256 in their metadata are sent anew. Afterwards only what is missing or was overwritten is put
back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

from modelctl.errors import RefusedError
from modelctl.model.tree import FileEntry, Tree
from modelctl.progress import Progress
from modelctl.registry.manifest import MANIFESTS, Manifest, object_prefix
from modelctl.registry.store import ObjectStore


@dataclass(frozen=True, kw_only=True)
class Step:
    """What happens to one file: sent, copied on the server from the key `source`, or kept as it is there."""

    entry: FileEntry
    action: Literal["send", "copy", "keep"]
    source: str | None = None


def plan_upload(store: ObjectStore, tree: Tree, *, name: str, version: str, published: bool) -> tuple[Step, ...]:
    """One step for each file, in the tree's order. `published`: the release has its manifest."""
    prefix = object_prefix(name, version)
    sizes = store.sizes(prefix)
    steps: list[Step] = []
    elsewhere: dict[str, str] | None = None
    for entry in tree.files:
        key = prefix + entry.path
        if sizes.get(key) == entry.size_bytes and _holds(store, key, entry, without_metadata=published):
            steps.append(Step(entry=entry, action="keep"))
            continue
        if elsewhere is None:
            elsewhere = _other_releases(store, name=name, version=version)
        source = elsewhere.get(entry.sha256)
        if source is not None and _holds(store, source, entry, without_metadata=False):
            steps.append(Step(entry=entry, action="copy", source=source))
        else:
            steps.append(Step(entry=entry, action="send"))
    return tuple(steps)


def carry_out(
    store: ObjectStore, tree: Tree, steps: Sequence[Step], *, name: str, version: str, progress: Progress
) -> None:
    """Do the steps. Raises `RefusedError` for a file whose bytes have changed, `StoreError`."""
    prefix = object_prefix(name, version)
    work = [step for step in steps if step.action != "keep"]
    total = sum(step.entry.size_bytes for step in work)
    with progress.task("upload", total=total, unit="bytes") as task:
        for step in work:
            task.describe(step.entry.path)
            key = prefix + step.entry.path
            match step.action:
                case "send":
                    store.put_file(key, tree.location(step.entry.path), step.entry, task.advance)
                case "copy" if step.source is not None:
                    store.copy(step.source, key, step.entry.sha256)
                    task.advance(step.entry.size_bytes)
                case "copy" | "keep":
                    continue
                case _:
                    assert_never(step.action)


def sweep_and_check(store: ObjectStore, tree: Tree, *, name: str, version: str, progress: Progress) -> None:
    """Make sure that the prefix holds the tree and nothing else, just before the manifest says so.

    Objects that do not belong there are left from an attempt that never became a release, and are removed. Raises
    `RefusedError` when an object is not what was sent: someone else is writing to the same release.
    """
    prefix = object_prefix(name, version)
    sizes = store.sizes(prefix)
    wanted = {prefix + entry.path: entry for entry in tree.files}
    for key in sorted(sizes.keys() - wanted.keys()):
        progress.note(f"removing {key}: left from an attempt that was never published")
        store.remove(key)
    for key, entry in wanted.items():
        if sizes.get(key) != entry.size_bytes or not _holds(store, key, entry, without_metadata=True):
            raise RefusedError(
                f"{key} is not what was sent a moment ago: someone else writes to {name}@{version} at the same time",
                remedy=f"find the other publication of {name}@{version}, then run the same command again",
            )


def _holds(store: ObjectStore, key: str, entry: FileEntry, *, without_metadata: bool) -> bool:
    found = store.stat(key)
    if found is None or found.size_bytes != entry.size_bytes:
        return False
    return without_metadata if found.sha256 is None else found.sha256 == entry.sha256


def _other_releases(store: ObjectStore, *, name: str, version: str) -> dict[str, str]:
    """The key of every file that the other releases of this name hold, by sha256."""
    found: dict[str, str] = {}
    prefix = f"{MANIFESTS}{name}/"
    for key in store.sizes(prefix):
        other = key.removeprefix(prefix).removesuffix(".json")
        content = store.read(key) if other != version else None
        if content is not None:
            manifest = Manifest.from_json(content, name=name, version=other)
            for item in manifest.served.files:
                found.setdefault(item.sha256, object_prefix(name, other) + item.path)
    return found
