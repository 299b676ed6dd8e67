"""Stores on two real S3 servers: rclone keeps bytes on disk but ignores conditions; moto honours `If-None-Match`.

With `S3_ENDPOINT` (`make test-s3`) the tests that hold for any server run against that one instead, with the keys that
modelctl itself would take from the environment, and a table at the end says what the server can do.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest

from modelctl.model.s3_faults import StoreError, translated
from modelctl.registry.capabilities import NAMES, Capabilities, probe
from modelctl.registry.multipart import abandon_uploads
from modelctl.registry.store import ObjectStore
from modelctl.services.process import Running
from modelctl.settings import load_workspace
from tests.support.publication import Proposal, propose
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

ENDPOINT = os.environ.get("S3_ENDPOINT", "")
PREFIX = "modelctl-test-"


def a_store(endpoint: str, *, secret_key: str = SECRET_KEY, bucket: str | None = None) -> ObjectStore:
    """A store with a bucket of its own, not made yet."""
    name = bucket or f"{PREFIX}{uuid.uuid4().hex[:8]}"
    if endpoint.rstrip("/") == ENDPOINT.rstrip("/"):
        settings = load_workspace(Path("/")).settings.store.model_copy(update={"endpoint": endpoint, "bucket": name})
        return ObjectStore.open(settings)
    return ObjectStore(endpoint=endpoint, bucket=name, access_key=ACCESS_KEY, secret_key=secret_key)


@pytest.fixture
def store(rclone: Running) -> ObjectStore:
    return a_store(rclone.address)


@pytest.fixture
def strict_store(moto: str) -> ObjectStore:
    """A store that enforces conditions, as MinIO does."""
    return a_store(moto)


@pytest.fixture(params=["external"] if ENDPOINT else ["store", "strict_store"])
def any_store(request: pytest.FixtureRequest) -> ObjectStore:
    """What a test holds for on any server: both local ones in turn, or the one that S3_ENDPOINT names."""
    found: ObjectStore = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def external() -> Iterator[ObjectStore]:
    """A bucket of its own on the server that S3_ENDPOINT names; it is removed afterwards."""
    store = a_store(ENDPOINT)
    yield store
    _remove(store)


@pytest.fixture
def proposal(tmp_path: Path) -> Proposal:
    return propose(tmp_path / "registry-repository")


def _remove(store: ObjectStore) -> None:
    """Empty the bucket, all versions of its objects too, and remove it as far as the server lets us."""
    minio = store.server.minio
    with suppress(StoreError):
        if not store.exists():
            return
        abandon_uploads(store.server, store.bucket, "")
        for key in store.sizes(""):
            store.remove(key)
    with suppress(StoreError), translated("remove the versions", store.place):
        for item in minio.list_objects(store.bucket, recursive=True, include_version=True):
            minio.remove_object(store.bucket, item.object_name, version_id=item.version_id)
    with suppress(StoreError), translated("remove the bucket", store.place):
        minio.remove_bucket(store.bucket)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With S3_ENDPOINT: only what holds for any server."""
    if ENDPOINT:
        kept = [item for item in items if "any_store" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """With S3_ENDPOINT: what the server can do."""
    if not ENDPOINT:
        return
    terminalreporter.section(f"what {ENDPOINT} can do")
    plain, locked = a_store(ENDPOINT), a_store(ENDPOINT)
    try:
        rows = [
            ("a new bucket", _probed(plain, object_lock=False)),
            ("with object lock", _probed(locked, object_lock=True)),
        ]
    finally:
        _remove(plain)
        _remove(locked)
    terminalreporter.write_line(f"{'':22}" + "".join(f"{name:20}" for name, _ in rows))
    for field in fields(Capabilities):
        cells = [("yes" if getattr(can, field.name) else "no") if can else "not made" for _, can in rows]
        terminalreporter.write_line(f"{NAMES[field.name]:22}" + "".join(f"{cell:20}" for cell in cells))


def _probed(store: ObjectStore, *, object_lock: bool) -> Capabilities | None:
    try:
        store.ensure_bucket(object_lock=object_lock)
        return probe(store)
    except StoreError:
        return None
