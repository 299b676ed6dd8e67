"""One bucket of an S3 server, through the minio client.

What an object holds is told by its size and by our own sha256, which travels as its metadata; a server may forget
metadata, so that its absence proves nothing. An ETag is no hash here: it tells one state of an object from another.
Files are sent by `sending`, in parts by `multipart`.
"""

from __future__ import annotations

import copy
import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from modelctl.model.s3_client import S3Client, S3Stream
from modelctl.model.s3_faults import (
    AlreadyThereError,
    NoSuchBucketError,
    NoSuchObjectError,
    NotSupportedError,
    StoreError,
    translated,
)
from modelctl.registry.multipart import MultipartUpload
from modelctl.settings import Store

LARGEST_COPY_BYTES = 5 << 30
"""What S3 copies by one request; larger objects are copied in parts of this size or less."""
COPY_PART_BYTES = 1 << 30
PROBE_KEY = ".modelctl/probe"


@dataclass(frozen=True, kw_only=True)
class StoredObject:
    """What the server says of an object; `sha256` is our own metadata, None when the server has none."""

    key: str
    size_bytes: int
    sha256: str | None
    etag: str = ""
    """Names this state of the object; "" when the server has none."""


class ObjectStore:
    """A bucket. Nothing is asked of the server before the first call; all calls raise `StoreError`."""

    def __init__(
        self,
        *,
        endpoint: str,
        bucket: str,
        access_key: str | None = None,
        secret_key: str | None = None,
        session_token: str | None = None,
        region: str | None = None,
        addressing: Literal["auto", "path", "virtual-host"] = "auto",
        ca_file: Path | None = None,
    ) -> None:
        self.server = S3Client(
            endpoint=endpoint,
            access_key=access_key,
            secret_key=secret_key,
            session_token=session_token,
            region=region,
            addressing=addressing,
            ca_file=ca_file,
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
        store = cls(endpoint=server.endpoint, bucket=settings.bucket)
        store.server = server
        return store

    def describe(self) -> str:
        """One sentence for a person, after asking the server whether the bucket is there."""
        exists = self.exists()
        missing = "" if exists else " (the bucket is not there yet: publish makes it)"
        return f"{self.place}, keys from {self.server.keys_from}{missing}"

    def ensure_bucket(self, *, object_lock: bool = False) -> bool:
        """Make the bucket when it is not there, with object lock where that is asked for and the server has it.

        True when it was made.
        """
        if self.exists():
            return False
        try:
            try:
                self._make_bucket(object_lock=object_lock)
            except NotSupportedError:
                if not object_lock:
                    raise
                self._make_bucket(object_lock=False)
        except StoreError:
            if not self.exists():  # another publisher may have made it meanwhile
                raise
            return False
        return True

    def _make_bucket(self, *, object_lock: bool) -> None:
        with translated("make the bucket", self.place):
            self.server.minio.make_bucket(self.bucket, object_lock=object_lock)

    def exists(self) -> bool:
        """Whether the bucket is there."""
        try:
            with translated("look for the bucket", self.place):
                return bool(self.server.minio.bucket_exists(self.bucket))
        except NoSuchBucketError:
            return False

    def stat(self, key: str) -> StoredObject | None:
        """Size and sha256 of an object; None when it is not there."""
        try:
            with translated(f"look at {key}", self.place):
                found = self.server.minio.stat_object(self.bucket, key)
        except NoSuchObjectError:
            return None
        metadata = {name.lower(): value for name, value in (found.metadata or {}).items()}
        return StoredObject(
            key=key, size_bytes=int(found.size or 0), sha256=metadata.get("x-amz-meta-sha256"), etag=(found.etag or "")
        )

    def sizes(self, prefix: str) -> dict[str, int]:
        """Size in bytes of every object whose key begins with `prefix`; empty when there is no such bucket."""
        try:
            with translated(f"list {prefix}", self.place):
                found = self.server.minio.list_objects(self.bucket, prefix=prefix, recursive=True)
                return {str(item.object_name): int(item.size or 0) for item in found if not item.is_dir}
        except NoSuchBucketError:
            return {}

    def put_whole(self, key: str, content: bytes | memoryview, *, sha256: str | None = None) -> None:
        """Write a small object by one request, whatever is there."""
        headers = {"Content-Type": "application/octet-stream"}
        if sha256 is not None:
            headers["X-Amz-Meta-Sha256"] = sha256
        with translated(f"send {key}", self.place):
            self.server.minio._put_object(self.bucket, key, content, headers)

    def copy(self, source: StoredObject, key: str, sha256: str) -> None:
        """Copy an object on the server, in the state that was looked at; the copy gets `sha256` as its metadata.

        Raises `NotSupportedError` when the server can't, `StoreError` when the source has changed.
        """
        if source.size_bytes > LARGEST_COPY_BYTES:
            self.copy_by_parts(source, key, sha256)
            return
        from minio.commonconfig import CopySource

        headers = CopySource(self.bucket, source.key, match_etag=source.etag or None).gen_copy_headers()
        headers |= {"X-Amz-Meta-Sha256": sha256, "x-amz-metadata-directive": "REPLACE"}
        with translated(f"copy {source.key}", self.place):
            self.server.minio._execute("PUT", self.bucket, object_name=key, headers=headers)

    def copy_by_parts(self, source: StoredObject, key: str, sha256: str, *, part_bytes: int = COPY_PART_BYTES) -> None:
        """Copy an object of any size on the server, in parts; see `copy`."""
        upload = MultipartUpload.start(self.server, self.bucket, key, {"sha256": sha256})
        try:
            etags = {
                number: upload.copy(
                    number,
                    source.key,
                    first=first,
                    last=min(first + part_bytes, source.size_bytes) - 1,
                    source_etag=source.etag,
                )
                for number, first in enumerate(range(0, source.size_bytes, part_bytes), start=1)
            }
            upload.complete(etags)
        except BaseException:
            upload.abort()
            raise

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

    def stream(self, key: str, *, offset: int = 0, length: int = 0) -> S3Stream:
        """The bytes of an object from `offset` on, in blocks; `StoreUnavailableError` when the connection breaks."""
        return self.server.stream(self.bucket, key, offset=offset, length=length)

    def impatient(self, *, silence_s: float) -> ObjectStore:
        """The same bucket for a caller that repeats requests itself: a failing one is known after `silence_s`."""
        other = copy.copy(self)
        other.server = replace(self.server, silence_s=silence_s, retries=1)
        return other

    def put_if_absent(self, key: str, content: bytes) -> bytes:
        """Create an object unless it is there; returns what is there now, in either case.

        On a server that does not enforce the condition, two writers at the same instant may both succeed: `probe` says
        which kind a server is.
        """
        existing = self.read(key)
        if existing is None and not self.put_conditionally(key, content):
            existing = self.read(key)
        return content if existing is None else existing

    def put_conditionally(self, key: str, content: bytes) -> bool:
        """Write an object with the condition that it is not there; False when the server says that it is."""
        try:
            with translated(f"write {key}", self.place):
                self.server.minio._put_object(self.bucket, key, content, {"If-None-Match": "*"})
        except NotSupportedError:  # "a header implies functionality that is not implemented"
            self.put_whole(key, content)
        except AlreadyThereError:
            return False
        return True

    def retain(self, key: str, mode: Literal["governance", "compliance"], until: datetime.datetime) -> None:
        """Forbid everyone to change or remove an object until then, on a bucket with object lock."""
        from minio.retention import Retention

        with translated(f"retain {key}", self.place):
            self.server.minio.set_object_retention(self.bucket, key, Retention(mode.upper(), until))
