"""Stores on two real S3 servers: rclone keeps bytes on disk but ignores conditions; moto honours `If-None-Match`."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from modelctl.registry.store import ObjectStore
from modelctl.services.process import Running
from tests.support.publication import Proposal, propose
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY


def a_store(endpoint: str, *, secret_key: str = SECRET_KEY, bucket: str | None = None) -> ObjectStore:
    """A store with a bucket of its own, not made yet."""
    name = bucket or f"models-{uuid.uuid4().hex[:8]}"
    return ObjectStore(endpoint=endpoint, bucket=name, access_key=ACCESS_KEY, secret_key=secret_key)


@pytest.fixture
def store(rclone: Running) -> ObjectStore:
    return a_store(rclone.address)


@pytest.fixture
def strict_store(moto: str) -> ObjectStore:
    """A store that enforces conditions, as MinIO does."""
    return a_store(moto)


@pytest.fixture
def proposal(tmp_path: Path) -> Proposal:
    return propose(tmp_path / "registry-repository")
