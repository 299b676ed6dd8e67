"""One bucket of an S3 server, through the minio client: every byte is hashed while it is sent or fetched.

An object whose bytes are not those that were announced never comes into being: the hash is compared before the upload's
last part leaves. Memory is bounded by a few parts, whatever the size. ETags are never compared, only sizes and our own
sha256, which travels as the object's metadata; a server may forget metadata, so that its absence proves nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from modelctl.errors import InputError
from modelctl.model.tree import FileEntry
from modelctl.registry.checked import CheckedReader
from modelctl.registry.faults import NoSuchBucketError, NoSuchObjectError, Place, by_status, translated
from modelctl.services.s3 import embedded_s3
from modelctl.settings import Store

if TYPE_CHECKING:
    import urllib3
    from minio import Minio

PART_BYTES = 16 << 20
MAX_PARTS = 9000
BLOCK_BYTES = 1 << 20
PROBE_KEY = ".modelctl/probe"
SHOW_SETTINGS = "modelctl config show"
ACCESS_KEY_VARIABLES = ("MINIO_ACCESS_KEY", "AWS_ACCESS_KEY_ID")
SECRET_KEY_VARIABLES = ("MINIO_SECRET_KEY", "AWS_SECRET_ACCESS_KEY")


@dataclass(frozen=True, kw_only=True)
class StoredObject:
    """What the server says of an object; `sha256` is our own metadata, None when the server has none."""

    key: str
    size_bytes: int
    sha256: str | None


class ObjectStore:
    """A bucket. Nothing is asked of the server before the first call; all calls raise `StoreError`."""

    def __init__(
        self,
        *,
        endpoint: str,
        bucket: str,
        access_key: str | None = None,
        secret_key: str | None = None,
        region: str | None = None,
        ca_file: Path | None = None,
    ) -> None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/") or parts.username:
            raise InputError(f"store.endpoint: found '{endpoint}', wanted http(s)://host:port", remedy=SHOW_SETTINGS)
        if ca_file is not None and not ca_file.is_file():
            raise InputError(f"store.ca_file: {ca_file}: no such file", remedy=SHOW_SETTINGS)
        self.place = Place(endpoint=f"{parts.scheme}://{parts.netloc}", bucket=bucket)
        self.bucket = bucket
        self._netloc = parts.netloc
        self._secure = parts.scheme == "https"
        self._keys = (access_key, secret_key)
        self._region = region
        self._ca_file = ca_file

    @classmethod
    def open(
        cls, settings: Store, *, environ: Mapping[str, str] = os.environ, state: Path | None = None
    ) -> ObjectStore:
        """The store that the settings name, else the embedded server of the state folder, when it runs.

        Keys that are not set come from the variables that other S3 tools read. Raises `InputError` when there is no
        store, or half a pair of keys.
        """
        access_key = settings.access_key or _first_set(environ, ACCESS_KEY_VARIABLES)
        secret_key = settings.secret_key or _first_set(environ, SECRET_KEY_VARIABLES)
        endpoint = settings.endpoint
        embedded = embedded_s3(state) if state is not None else None
        if embedded is not None and endpoint in (None, embedded.running.address):
            endpoint = embedded.running.address
            access_key, secret_key = embedded.credentials.access_key, embedded.credentials.secret_key
        if endpoint is None:
            raise InputError(
                "no object store is set",
                remedy="set store.endpoint (MODELCTL_STORE_ENDPOINT), or start one on disk: modelctl services up s3",
            )
        if (access_key is None) != (secret_key is None):
            missing = "MODELCTL_STORE_SECRET_KEY" if access_key else "MODELCTL_STORE_ACCESS_KEY"
            raise InputError("only half of the object store's keys is set", remedy=f"export {missing}=…")
        return cls(
            endpoint=endpoint,
            bucket=settings.bucket,
            access_key=access_key,
            secret_key=secret_key,
            region=settings.region,
            ca_file=settings.ca_file,
        )

    def describe(self) -> str:
        """One sentence for a person, after asking the server whether the bucket is there."""
        exists = self._bucket_exists()
        return str(self.place) + ("" if exists else " (the bucket is not there yet: publish makes it)")

    @cached_property
    def _http(self) -> urllib3.PoolManager:
        import urllib3

        return urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=10, read=300),
            maxsize=10,
            cert_reqs="CERT_REQUIRED",
            ca_certs=str(self._ca_file) if self._ca_file else None,
            retries=urllib3.Retry(
                total=5, connect=2, other=0, backoff_factor=0.2, status_forcelist=[500, 502, 503, 504]
            ),
        )

    @cached_property
    def _client(self) -> Minio:
        from minio import Minio

        access_key, secret_key = self._keys
        return Minio(
            self._netloc,
            access_key=access_key,
            secret_key=secret_key,
            secure=self._secure,
            region=self._region,
            http_client=self._http,
        )

    def ensure_bucket(self) -> None:
        """Make the bucket when it is not there."""
        if not self._bucket_exists():
            with translated("make the bucket", self.place):
                self._client.make_bucket(self.bucket)

    def stat(self, key: str) -> StoredObject | None:
        """Size and sha256 of an object; None when it is not there."""
        try:
            with translated(f"look at {key}", self.place):
                found = self._client.stat_object(self.bucket, key)
        except NoSuchObjectError:
            return None
        metadata = {name.lower(): value for name, value in (found.metadata or {}).items()}
        return StoredObject(key=key, size_bytes=int(found.size or 0), sha256=metadata.get("x-amz-meta-sha256"))

    def sizes(self, prefix: str) -> dict[str, int]:
        """Size in bytes of every object whose key begins with `prefix`; empty when there is no such bucket."""
        try:
            with translated(f"list {prefix}", self.place):
                found = self._client.list_objects(self.bucket, prefix=prefix, recursive=True)
                return {str(item.object_name): int(item.size or 0) for item in found if not item.is_dir}
        except NoSuchBucketError:
            return {}

    def put_file(self, key: str, path: Path, entry: FileEntry, advance: Callable[[float], None]) -> None:
        """Send a file that must be what `entry` says. Raises `RefusedError`, and leaves no object, when it is not."""
        part_bytes = max(PART_BYTES, -(-entry.size_bytes // MAX_PARTS))
        with path.open("rb") as stream:
            reader = CheckedReader(stream, entry, path, advance)
            try:
                with translated(f"send {entry.path}", self.place):
                    self._client.put_object(
                        self.bucket,
                        key,
                        reader,
                        entry.size_bytes,
                        metadata={"sha256": entry.sha256},
                        part_size=part_bytes,
                    )
            except BaseException as error:
                if not isinstance(error, Exception):  # the client cleans up after errors, but not after Ctrl-C
                    self._abandon_uploads(key)
                if reader.refusal is not None and error is not reader.refusal:
                    raise reader.refusal from error
                raise

    def copy(self, source: str, key: str, sha256: str) -> None:
        """Copy an object on the server; it gets `sha256` as its metadata."""
        from minio.commonconfig import REPLACE, CopySource

        with translated(f"copy {source}", self.place):
            self._client.copy_object(
                self.bucket,
                key,
                CopySource(self.bucket, source),
                metadata={"sha256": sha256},
                metadata_directive=REPLACE,
            )

    def remove(self, key: str) -> None:
        """Remove an object; one that is not there is fine."""
        with translated(f"remove {key}", self.place):
            self._client.remove_object(self.bucket, key)

    def read(self, key: str) -> bytes | None:
        """A small object as a whole; None when there is no such object or bucket."""
        try:
            return b"".join(self.stream(key))
        except (NoSuchObjectError, NoSuchBucketError):
            return None

    def stream(self, key: str, *, offset: int = 0) -> Iterator[bytes]:
        """The bytes of an object from `offset` on, in blocks; `StoreUnavailableError` when the connection breaks."""
        with translated(f"fetch {key}", self.place):
            response = self._client.get_object(self.bucket, key, offset=offset)
            try:
                yield from response.stream(BLOCK_BYTES)
            finally:
                response.close()
                response.release_conn()

    def enforces_absence(self) -> bool:
        """Whether the server refuses `If-None-Match: *` for an object that is there; tried on one of our own."""
        return any(not self._put_conditionally(PROBE_KEY, b"modelctl\n") for _ in range(2))

    def put_if_absent(self, key: str, content: bytes) -> bytes:
        """Create an object unless it is there; returns what is there now, in either case.

        On a server that does not enforce the condition, two writers at the same instant may both succeed: look at
        `enforces_absence` and say so.
        """
        existing = self.read(key)
        if existing is None and not self._put_conditionally(key, content):
            existing = self.read(key)
        return content if existing is None else existing

    def _bucket_exists(self) -> bool:
        try:
            with translated("look for the bucket", self.place):
                return bool(self._client.bucket_exists(self.bucket))
        except NoSuchBucketError:
            return False

    def _put_conditionally(self, key: str, content: bytes) -> bool:
        # The client has no conditional put, so the request is one it presigned; the header needs no signature.
        with translated(f"write {key}", self.place):
            url = self._client.get_presigned_url("PUT", self.bucket, key)
            response = self._http.urlopen("PUT", url, body=content, headers={"If-None-Match": "*"})
            if response.status == 501:  # "a header implies functionality that is not implemented"
                response = self._http.urlopen("PUT", url, body=content)
        if response.status in (200, 201, 204):
            return True
        if response.status in (409, 412):
            return False
        raise by_status(f"write {key}", self.place, response.status, response.data.decode(errors="replace"))

    def _abandon_uploads(self, key: str) -> None:
        with translated(f"clean up after {key}", self.place):
            uploads = self._client._list_multipart_uploads(self.bucket, prefix=key)
            for upload in uploads.uploads:
                if upload.object_name == key:
                    self._client._abort_multipart_upload(self.bucket, key, upload.upload_id)


def _first_set(environ: Mapping[str, str], names: Sequence[str]) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)
