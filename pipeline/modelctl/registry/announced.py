"""Who else is about to publish a version: every publication says so in the bucket before it sends its first byte.

`.modelctl/publishing/<name>/<version>/<tree digest>` is written first, and goes when the release is there; one that
fails leaves its word, since it may leave bytes too. Whoever has written its own word and then finds no other knows that
none but the same bytes were sent until then: of two that overlap, the later one's word is there before its first byte.
That takes a server whose listings show what was written, and no condition on writes.
"""

from __future__ import annotations

from modelctl.model.tree import DIGEST_PREFIX
from modelctl.registry.store import ObjectStore

PUBLISHING = ".modelctl/publishing/"


def announce(store: ObjectStore, name: str, version: str, digest: str) -> None:
    """Say that the bytes of `digest` are about to be sent as this version. Raises `StoreError`."""
    store.put_whole(_prefix(name, version) + digest.removeprefix(DIGEST_PREFIX), b"modelctl publish\n")


def others_announced(store: ObjectStore, name: str, version: str, digest: str) -> tuple[str, ...]:
    """The digests of other bytes that someone is sending as this version, or was. Raises `StoreError`."""
    prefix = _prefix(name, version)
    found = {DIGEST_PREFIX + key.removeprefix(prefix) for key in store.sizes(prefix)}
    return tuple(sorted(found - {digest}))


def withdraw(store: ObjectStore, name: str, version: str) -> None:
    """Take away every word of this version: its release is there, or gone. Raises `StoreError`."""
    for key in store.sizes(_prefix(name, version)):
        store.remove(key)


def _prefix(name: str, version: str) -> str:
    return f"{PUBLISHING}{name}/{version}/"
