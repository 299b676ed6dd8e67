"""One S3 server and the keys to it: found in the settings, connected to when it is first asked.

What the registry publishes to and what a model is read from are the same kind of server, so both are reached from
here. ETags are never taken for hashes; here they only tell one state of an object from another.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from modelctl.errors import InputError
from modelctl.model.s3_faults import Place, StoreError, translated
from modelctl.model.s3_keys import Keys, find_keys
from modelctl.services.s3 import embedded_s3
from modelctl.settings import Store

if TYPE_CHECKING:
    import urllib3
    from minio import Minio
    from urllib3 import BaseHTTPResponse

BLOCK_BYTES = 1 << 18
"""Larger ones come from fresh memory each time, and the kernel then takes longer than the network."""
SHOW_SETTINGS = "modelctl config show"


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One object as a listing shows it; `etag` and `modified` are "" when the server says nothing of them."""

    key: str
    size_bytes: int
    etag: str = ""
    modified: str = ""


@dataclass(frozen=True, kw_only=True)
class S3Client:
    """A server. Nothing is asked of it before the first call; all calls raise `StoreError`."""

    endpoint: str
    """`http(s)://host:port`."""
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    addressing: Literal["auto", "path", "virtual-host"] = "auto"
    """Whether the bucket is in a request's path or in its host's name; auto: the latter for Amazon's servers."""
    ca_file: Path | None = None
    keys_from: str = "its caller"
    """Which place the keys were found in, for people."""
    silence_s: float = 300.0
    """Longest silence of the server, in seconds; putting a large object together takes it minutes."""
    retries: int = 5

    def __post_init__(self) -> None:
        parts = urlsplit(self.endpoint)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/") or parts.username:
            raise InputError(
                f"store.endpoint: found '{self.endpoint}', wanted http(s)://host:port", remedy=SHOW_SETTINGS
            )
        if self.ca_file is not None and not self.ca_file.is_file():
            raise InputError(f"store.ca_file: {self.ca_file}: no such file", remedy=SHOW_SETTINGS)

    @classmethod
    def open(cls, settings: Store, *, environ: Mapping[str, str] = os.environ, state: Path | None = None) -> S3Client:
        """The server that the settings name, else the embedded one of the state folder, when it runs.

        Keys that are not set come from the variables that other S3 tools read. Raises `InputError` when there is no
        server, or half a pair of keys.
        """
        endpoint = settings.endpoint
        embedded = embedded_s3(state) if state is not None else None
        if embedded is not None and endpoint in (None, embedded.running.address):
            endpoint = embedded.running.address
            made = embedded.credentials
            keys = Keys(access_key=made.access_key, secret_key=made.secret_key, origin="modelctl services")
        elif endpoint is None:
            raise InputError(
                "no object store is set",
                remedy="set store.endpoint (MODELCTL_STORE_ENDPOINT), or start one on disk: modelctl services up s3",
            )
        else:
            keys = find_keys(settings, endpoint, environ)
        return cls(
            endpoint=endpoint,
            access_key=keys.access_key,
            secret_key=keys.secret_key,
            session_token=keys.session_token,
            region=settings.region or keys.region,
            addressing=settings.addressing,
            ca_file=settings.ca_file,
            keys_from=keys.origin,
        )

    @cached_property
    def http(self) -> urllib3.PoolManager:
        """The connections, with patience for a server that is busy."""
        import urllib3

        return urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=10, read=self.silence_s),
            maxsize=16,
            cert_reqs="CERT_REQUIRED",
            ca_certs=str(self.ca_file) if self.ca_file else None,
            retries=urllib3.Retry(
                total=self.retries,
                connect=min(2, self.retries),
                other=0,
                backoff_factor=0.2,
                status_forcelist=[500, 502, 503, 504],
            ),
        )

    @cached_property
    def minio(self) -> Minio:
        """The library's client on these connections."""
        from minio import Minio

        parts = urlsplit(self.endpoint)
        client = Minio(
            parts.netloc,
            access_key=self.access_key,
            secret_key=self.secret_key,
            session_token=self.session_token,
            secure=parts.scheme == "https",
            region=self.region,
            http_client=self.http,
        )
        match self.addressing:
            case "path":
                client.disable_virtual_style_endpoint()
            case "virtual-host":
                client.enable_virtual_style_endpoint()
            case "auto":
                pass
        return client

    def place(self, bucket: str) -> Place:
        """What errors about a bucket name."""
        return Place(endpoint=self.endpoint.rstrip("/"), bucket=bucket)

    def listing(self, bucket: str, prefix: str) -> Iterator[Listed]:
        """Every object whose key begins with `prefix`, with its size in bytes."""
        with translated(f"list {prefix}", self.place(bucket)):
            for item in self.minio.list_objects(bucket, prefix=prefix, recursive=True):
                yield Listed(
                    key=str(item.object_name),
                    size_bytes=int(item.size or 0),
                    etag=(item.etag or "").strip('"'),
                    modified=item.last_modified.isoformat() if item.last_modified else "",
                )

    def folders(self, bucket: str, prefix: str) -> Iterator[str]:
        """What the keys that begin with `prefix` go on with, up to the next slash."""
        with translated(f"list {prefix}", self.place(bucket)):
            for item in self.minio.list_objects(bucket, prefix=prefix):
                yield str(item.object_name)

    def stream(self, bucket: str, key: str, *, offset: int = 0, length: int = 0, etag: str = "") -> S3Stream:
        """The bytes of an object from `offset` on, `length` of them or all; with `etag` only of that state of it."""
        return S3Stream(self, bucket, key, offset=offset, length=length, etag=etag)


class S3Stream:
    """The answer to one request for an object: iterate over its blocks. Errors are `StoreError`.

    A server that takes no range may send more than the length that was asked for: what follows is the caller's to drop.
    """

    def __init__(self, client: S3Client, bucket: str, key: str, *, offset: int, length: int, etag: str) -> None:
        self._client = client
        self._bucket = bucket
        self._key = key
        self._offset = offset
        self._length = length
        self._etag = etag
        self.sha256: str | None = None
        """What the publisher of the object says it hashes to, once the answer began; None when it says nothing."""
        self._response: BaseHTTPResponse | None = None

    def __iter__(self) -> Iterator[bytes]:
        with self._answer() as response:
            yield from response.stream(BLOCK_BYTES, decode_content=False)

    def into(self, buffer: memoryview) -> Iterator[memoryview]:
        """The same blocks, each read into the beginning of `buffer`, and good until the next one is asked for."""
        import urllib3.exceptions

        with self._answer() as response:
            source = response._fp  # type: ignore[attr-defined]  # its own `readinto` makes bytes of a block and copies them
            while True:
                try:
                    count = source.readinto(buffer)
                except (HTTPException, OSError) as error:
                    raise urllib3.exceptions.ProtocolError(f"Connection broken: {error!r}", error) from error
                if not count:
                    return
                yield buffer[:count]

    @contextmanager
    def _answer(self) -> Iterator[BaseHTTPResponse]:
        with translated(f"fetch {self._key}", self._client.place(self._bucket)):
            response = self._client.minio.get_object(
                self._bucket,
                self._key,
                offset=self._offset,
                length=self._length,
                request_headers={"If-Match": f'"{self._etag}"'} if self._etag else None,
            )
            self._response = response
            drained = False
            try:
                # rclone answers a range with status 200; the header says which bytes they are
                ranged = response.headers.get("Content-Range", "").startswith(f"bytes {self._offset}-")
                if self._offset and not ranged:
                    raise StoreError(
                        f"cannot fetch {self._key}: asked for the bytes from {self._offset} on, and got all of them",
                        remedy="something between here and the object store takes ranges out of requests",
                    )
                self.sha256 = response.headers.get("x-amz-meta-sha256")
                yield response
                drained = True
            finally:
                self._response = None
                if not drained:  # else the connection is good for the next request
                    response.close()
                response.release_conn()

    def interrupt(self) -> None:
        """End a wait for the next block at once, from another thread; the wait raises `StoreUnavailableError`."""
        connection = getattr(self._response, "connection", None)
        waiting = getattr(connection, "sock", None)
        if waiting is not None:
            with suppress(OSError):
                waiting.shutdown(socket.SHUT_RDWR)
