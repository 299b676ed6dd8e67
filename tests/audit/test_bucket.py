"""The bucket held against git: each kind of contradiction by its rule."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from modelctl.audit.verify import verify
from modelctl.registry.manifest import manifest_key
from modelctl.registry.store import ObjectStore
from tests.support.bucket import overwrite, place
from tests.support.history import Registry, a_served_registry
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

pytestmark = pytest.mark.services


@pytest.fixture
def store(moto: str) -> ObjectStore:
    return ObjectStore(
        endpoint=moto, bucket=f"audit-{uuid.uuid4().hex[:8]}", access_key=ACCESS_KEY, secret_key=SECRET_KEY
    )


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    return a_served_registry(tmp_path_factory.mktemp("bucket") / "registry")


def publish_into(store: ObjectStore, registry: Registry, **about: str) -> None:
    place(store, {"model.safetensors": b"weights"}, key=registry.root / "key", **about)


def found(registry: Registry, store: ObjectStore) -> set[str]:
    return {item.rule.removeprefix("audit.") for item in verify(registry.root, store=store).violations}


def test_a_bucket_that_holds_what_git_says(store: ObjectStore, registry: Registry) -> None:
    publish_into(store, registry)
    result = verify(registry.root, store=store)
    assert (result.violations, result.unverified, result.bucket) == ((), (), True)


def test_a_release_that_is_not_there(store: ObjectStore, registry: Registry) -> None:
    store.ensure_bucket()
    result = verify(registry.root, store=store)
    assert {item.rule for item in result.violations} == {"audit.bucket-manifest", "audit.bucket-bytes"}
    assert "attestation" in result.unverified[0].reason


def test_other_bytes(store: ObjectStore, registry: Registry) -> None:
    publish_into(store, registry)
    overwrite(store, "tiny/1.0.0/model.safetensors", b"weighty", sha256="0" * 64)
    assert found(registry, store) == {"bucket-bytes"}


def test_a_manifest_of_other_bytes(store: ObjectStore, registry: Registry) -> None:
    publish_into(store, registry)
    place(store, {"model.safetensors": b"others!"}, name="tiny", version="1.0.0")
    assert found(registry, store) == {"bucket-manifest", "bucket-bytes"}


def test_an_attestation_of_a_stranger(store: ObjectStore, registry: Registry, tmp_path: Path) -> None:
    from tests.support.keys import ssh_key

    place(store, {"model.safetensors": b"weights"}, key=ssh_key(tmp_path / "stranger"))
    assert found(registry, store) == {"bucket-attestation"}


def test_a_release_that_git_does_not_know(store: ObjectStore, registry: Registry) -> None:
    publish_into(store, registry)
    publish_into(store, registry, name="eve")
    assert store.read(manifest_key("eve", "1.0.0"))
    assert found(registry, store) == {"bucket-unknown"}
