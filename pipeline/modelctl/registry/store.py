"""One bucket of an S3 server, through the minio client: every byte is hashed while it is sent or fetched.

An object whose bytes are not those that were announced never comes into being: the hash is compared before the upload's
last part leaves. Memory is bounded by a few parts, whatever the size. ETags are never compared, only sizes and our own
sha256, which travels as the object's metadata; a server may forget metadata, so that its absence proves nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from modelctl.model.s3_client import S3Client
from modelctl.model.s3_faults import NoSuchBucketError, NoSuchObjectError, by_status, translated
from modelctl.model.tree import FileEntry
from modelctl.registry.checked import CheckedReader
from modelctl.settings import Store

PART_BYTES = 16 << 20
MAX_PARTS = 9000
PROBE_KEY = ".modelctl/probe"


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
        self.server = S3Client(
            endpoint=endpoint, access_key=access_key, secret_key=secret_key, region=region, ca_file=ca_file
        )
        self.place = self.server.place(bucket)
        self.bucket = bucket

    @classmethod
    def open(
        cls, settings: Store, *, environ: Mapping[str, str] = os.environ, state: Path | None = None
    ) -> ObjectStore:
        """The store that the settings name, else the embedded server of the state folder, when it runs.

        Raises `InputError` when there is no store, or half a pair of keys.
        """
        server = S3Client.open(settings, environ=environ, state=state)
        return cls(
            endpoint=server.endpoint,
            bucket=settings.bucket,
            access_key=server.access_key,
            secret_key=server.secret_key,
            region=server.region,
            ca_file=server.ca_file,
        )

    def describe(self) -> str:
        """One sentence for a person, after asking the server whether the bucket is there."""
        exists = self._bucket_exists()
        return str(self.place) + ("" if exists else " (the bucket is not there yet: publish makes it)")

    def ensure_bucket(self) -> None:
        """Make the bucket when it is not there."""
        if not self._bucket_exists():
            with translated("make the bucket", self.place):
                self.server.minio.make_bucket(self.bucket)

    def stat(self, key: str) -> StoredObject | None:
        """Size and sha256 of an object; None when it is not there."""
        try:
            with translated(f"look at {key}", self.place):
                found = self.server.minio.stat_object(self.bucket, key)
        except NoSuchObjectError:
            return None
        metadata = {name.lower(): value for name, value in (found.metadata or {}).items()}
        return StoredObject(key=key, size_bytes=int(found.size or 0), sha256=metadata.get("x-amz-meta-sha256"))

    def sizes(self, prefix: str) -> dict[str, int]:
        """Size in bytes of every object whose key begins with `prefix`; empty when there is no such bucket."""
        try:
            with translated(f"list {prefix}", self.place):
                found = self.server.minio.list_objects(self.bucket, prefix=prefix, recursive=True)
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
                    self.server.minio.put_object(
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
            self.server.minio.copy_object(
                self.bucket,
                key,
                CopySource(self.bucket, source),
                metadata={"sha256": sha256},
                metadata_directive=REPLACE,
            )

    def remove(self, key: str) -> None:
        """Remove an object; one that is not there is fine."""
        with translated(f"remove {key}", self.place):
            self.server.minio.remove_object(self.bucket, key)

    def read(self, key: str) -> bytes | None:
        """A small object as a whole; None when there is no such object or bucket."""
        try:
            return b"".join(self.stream(key))
        except (NoSuchObjectError, NoSuchBucketError):
            return None

    def stream(self, key: str, *, offset: int = 0) -> Iterator[bytes]:
        """The bytes of an object from `offset` on, in blocks; `StoreUnavailableError` when the connection breaks."""
        return iter(self.server.stream(self.bucket, key, offset=offset))

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
                return bool(self.server.minio.bucket_exists(self.bucket))
        except NoSuchBucketError:
            return False

    def _put_conditionally(self, key: str, content: bytes) -> bool:
        # The client has no conditional put, so the request is one it presigned; the header needs no signature.
        with translated(f"write {key}", self.place):
            url = self.server.minio.get_presigned_url("PUT", self.bucket, key)
            response = self.server.http.urlopen("PUT", url, body=content, headers={"If-None-Match": "*"})
            if response.status == 501:  # "a header implies functionality that is not implemented"
                response = self.server.http.urlopen("PUT", url, body=content)
        if response.status in (200, 201, 204):
            return True
        if response.status in (409, 412):
            return False
        raise by_status(f"write {key}", self.place, response.status, response.data.decode(errors="replace"))

    def _abandon_uploads(self, key: str) -> None:
        with translated(f"clean up after {key}", self.place):
            uploads = self.server.minio._list_multipart_uploads(self.bucket, prefix=key)
            for upload in uploads.uploads:
                if upload.object_name == key:
                    self.server.minio._abort_multipart_upload(self.bucket, key, upload.upload_id)
