"""What is taken out of the bucket: releases that were retired in git, and what publications left that never ended.

The manifest goes first: from then on the release does not exist for anyone, and no download can begin on half of it.
The attestation follows, then the files. Whatever ends a removal, running it again finds what is left.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from modelctl.model.release import NAME_PATTERN, VERSION_PATTERN
from modelctl.progress import Progress
from modelctl.registry.announced import withdraw
from modelctl.registry.contents import CONTENTS
from modelctl.registry.manifest import MANIFESTS, manifest_key, object_prefix, paper_keys
from modelctl.registry.store import ObjectStore

WORKERS = 8
DEBRIS_AGE = datetime.timedelta(days=7)
"""How long nothing was written below a prefix without a manifest before it counts as left behind."""
_RELEASE_KEY = re.compile(rf"({NAME_PATTERN[1:-1]})/({VERSION_PATTERN[1:-1]})/.")


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a bucket holds of one release."""

    name: str
    version: str
    manifest: bool
    keys: tuple[str, ...]
    """Of its files."""
    size_bytes: int
    newest: datetime.datetime | None
    """When the youngest of the files was written; None when the server does not say."""

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    def left_behind(self, now: datetime.datetime) -> bool:
        """Whether it is of a publication that was never finished, and that nobody is at any more."""
        return not self.manifest and self.newest is not None and now - self.newest > DEBRIS_AGE


def held_in(store: ObjectStore) -> Mapping[str, Held]:
    """Everything of releases that a bucket holds, by `name@version`; other objects are not looked at.

    Raises `StoreError`.
    """
    manifests = set()
    for key in store.sizes(MANIFESTS):
        name, _, version = key.removeprefix(MANIFESTS).removesuffix(".json").partition("/")
        manifests.add(f"{name}@{version}")
    keys: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    newest: dict[str, str] = {}
    if store.exists():
        for item in store.server.listing(store.bucket, ""):
            matched = _RELEASE_KEY.match(item.key)
            if matched is None:
                continue
            name, version = item.key.split("/", 2)[:2]
            release = f"{name}@{version}"
            keys.setdefault(release, []).append(item.key)
            sizes[release] = sizes.get(release, 0) + item.size_bytes
            newest[release] = max(newest.get(release, ""), item.modified)
    return {
        release: Held(
            name=release.partition("@")[0],
            version=release.partition("@")[2],
            manifest=release in manifests,
            keys=tuple(keys.get(release, ())),
            size_bytes=sizes.get(release, 0),
            newest=datetime.datetime.fromisoformat(newest[release]) if newest.get(release) else None,
        )
        for release in sorted(manifests | keys.keys())
    }


def remove(
    store: ObjectStore, held: Iterable[Held], progress: Progress, *, contents: Mapping[str, Iterable[str]]
) -> int:
    """Take releases out of the bucket; returns the bytes of their files. Raises `StoreError`.

    `contents`: the sha256s of a release's files, where they are known, whose hints are then removed too.
    """
    items = list(held)
    with progress.task("remove", total=sum(len(item.keys) for item in items), unit="files") as task:
        for item in items:
            task.describe(item.id)
            store.remove(manifest_key(item.name, item.version))
            for key in paper_keys(item.name, item.version):
                store.remove(key)
            withdraw(store, item.name, item.version)
            with ThreadPoolExecutor(WORKERS) as pool:
                for _ in pool.map(store.remove, item.keys):
                    task.advance()
                hints = [CONTENTS + sha256 for sha256 in contents.get(item.id, ())]
                for _ in pool.map(lambda hint, item=item: _forget(store, hint, item), hints):
                    pass
    return sum(item.size_bytes for item in items)


def _forget(store: ObjectStore, hint: str, item: Held) -> None:
    """Remove the hint that a file's bytes are to be had from a release, when it names this one."""
    named = store.read(hint)
    if named is not None and named.startswith(object_prefix(item.name, item.version).encode()):
        store.remove(hint)
