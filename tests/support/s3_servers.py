"""The real S3 servers of the tests, and the keys that they take (moto takes any)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO

from modelctl.model.s3_client import S3Client

ACCESS_KEY = "test-access"
SECRET_KEY = "test-secret-5f3a91"  # unique in output, so that a leak can be searched for


@contextmanager
def moto_server() -> Iterator[str]:
    """moto, in this process; yields its URL."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def a_client(endpoint: str) -> S3Client:
    """A client with the keys of the tests."""
    return S3Client(endpoint=endpoint, access_key=ACCESS_KEY, secret_key=SECRET_KEY)


def put(client: S3Client, bucket: str, key: str, content: bytes, metadata: Mapping[str, str] | None = None) -> None:
    """Write one object, as any other program may."""
    client.minio.put_object(bucket, key, BytesIO(content), len(content), metadata=dict(metadata or {}))


def a_bucket(client: S3Client) -> str:
    """A bucket of its own."""
    name = f"bucket-{uuid.uuid4().hex[:8]}"
    client.minio.make_bucket(name)
    return name
