"""Two real S3 servers: rclone keeps bytes on disk but ignores conditions; moto honours `If-None-Match`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelctl.registry.store import ObjectStore
from modelctl.services.process import Running, running
from modelctl.services.s3 import s3_server
from tests.support.publication import Proposal, propose

ACCESS_KEY = "test-access"
SECRET_KEY = "test-secret-5f3a91"  # unique in output, so that a leak can be searched for


@pytest.fixture(scope="session")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("rclone")
    with running(s3_server(folder, access_key=ACCESS_KEY, secret_key=SECRET_KEY)) as service:
        yield service


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


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
