"""Object lock: how long a server keeps a published release from everybody, by the policy's retention."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from modelctl.admission.policy import Retention
from modelctl.progress import Progress
from modelctl.registry.capabilities import Capabilities
from modelctl.registry.contents import REQUESTS_AT_ONCE
from modelctl.registry.manifest import Manifest, manifest_key, object_prefix
from modelctl.registry.store import ObjectStore


def retain(
    store: ObjectStore,
    manifest: Manifest,
    retention: Retention,
    can: Capabilities,
    kept: Sequence[str],
    progress: Progress,
) -> datetime.datetime | None:
    """Have the server keep the release as it is, with the objects `kept` beside it; returns until when.

    The date is the same at every run, counted from the publication. None, with a note, on a server that has no object
    lock. Raises `StoreError`.
    """
    if not can.object_lock:
        progress.note(
            f"{store.place} has no object lock: nothing there keeps the release for the {retention.days} days that the "
            "policy asks for, but the rights of those who may write"
        )
        return None
    published = datetime.datetime.strptime(manifest.published_at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.UTC)
    until = published + datetime.timedelta(days=retention.days)
    name, version = manifest.release.name, manifest.release.version
    keys = [object_prefix(name, version) + item.path for item in manifest.served.files]
    keys += [*kept, manifest_key(name, version)]
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for _ in pool.map(lambda key: store.retain(key, retention.mode, until), keys):
            pass
    return until
