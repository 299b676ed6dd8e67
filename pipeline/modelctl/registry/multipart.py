"""One upload in parts: begun or found again, its parts sent, copied or listed, then put together or given up.

The minio client keeps these requests to itself (their names begin with an underscore); all use of them is here and in
`store`. An ETag is handed back to the server as it came. It is compared for one purpose: a listed part whose ETag is
the md5 of our own bytes is those bytes, whatever the server means by it; any other part is sent again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from modelctl.model.s3_client import S3Client
from modelctl.model.s3_faults import NoSuchBucketError, StoreError, translated

MAX_LISTED = 1000


@dataclass(frozen=True, kw_only=True)
class ListedPart:
    """What the server says of a part that it has."""

    size_bytes: int
    etag: str

    def holds(self, data: memoryview) -> bool:
        """Whether it is proven to be these bytes."""
        return self.size_bytes == len(data) and self.etag == hashlib.md5(data, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, kw_only=True)
class MultipartUpload:
    """An upload that is not complete. All calls raise `StoreError`."""

    server: S3Client
    bucket: str
    key: str
    upload_id: str

    @classmethod
    def start(cls, server: S3Client, bucket: str, key: str, metadata: Mapping[str, str]) -> MultipartUpload:
        """Begin one; the object will have `metadata`."""
        headers = {f"X-Amz-Meta-{name}": value for name, value in metadata.items()}
        with translated(f"begin to send {key}", server.place(bucket)):
            upload_id = server.minio._create_multipart_upload(bucket, key, headers)
        return cls(server=server, bucket=bucket, key=key, upload_id=upload_id)

    def parts(self) -> dict[int, ListedPart]:
        """The parts that the server has, by number."""
        found: dict[int, ListedPart] = {}
        marker: str | None = None
        while True:
            with translated(f"list the parts of {self.key}", self.server.place(self.bucket)):
                page = self.server.minio._list_parts(
                    self.bucket, self.key, self.upload_id, max_parts=MAX_LISTED, part_number_marker=marker
                )
            found |= {p.part_number: ListedPart(size_bytes=int(p.size or 0), etag=p.etag) for p in page.parts}
            if not page.is_truncated or page.next_part_number_marker in (None, marker):
                return found
            marker = page.next_part_number_marker

    def put(self, number: int, data: bytes | memoryview) -> str:
        """Send a part; returns its ETag."""
        with translated(f"send part {number} of {self.key}", self.server.place(self.bucket)):
            etag: str = self.server.minio._upload_part(self.bucket, self.key, data, None, self.upload_id, number)
        return etag

    def copy(self, number: int, source: str, *, first: int, last: int, source_etag: str) -> str:
        """Make a part of the bytes `first` to `last` (inclusive) of another object, on the server; returns its ETag."""
        from minio.commonconfig import CopySource

        headers = CopySource(self.bucket, source, match_etag=source_etag or None).gen_copy_headers()
        headers["x-amz-copy-source-range"] = f"bytes={first}-{last}"
        with translated(f"copy {source}", self.server.place(self.bucket)):
            etag, _ = self.server.minio._upload_part_copy(self.bucket, self.key, self.upload_id, number, headers)
        return str(etag)

    def complete(self, etags: Mapping[int, str]) -> None:
        """Put the object together of these parts."""
        from minio.datatypes import Part

        parts = [Part(number, etag) for number, etag in sorted(etags.items())]
        with translated(f"put {self.key} together", self.server.place(self.bucket)):
            self.server.minio._complete_multipart_upload(self.bucket, self.key, self.upload_id, parts)

    def abort(self) -> None:
        """Give up; the server forgets the parts."""
        with translated(f"clean up after {self.key}", self.server.place(self.bucket)):
            self.server.minio._abort_multipart_upload(self.bucket, self.key, self.upload_id)


def open_uploads(server: S3Client, bucket: str, prefix: str) -> Iterator[MultipartUpload]:
    """Uploads below a prefix that are not complete, as far as the server tells; none without the bucket.

    MinIO and rclone tell of a key's uploads only when the prefix is the whole key.
    """
    key_marker: str | None = None
    id_marker: str | None = None
    while True:
        try:
            with translated(f"list the uploads below {prefix}", server.place(bucket)):
                page = server.minio._list_multipart_uploads(
                    bucket, prefix=prefix, key_marker=key_marker, upload_id_marker=id_marker
                )
        except NoSuchBucketError:
            return
        for item in page.uploads:
            yield MultipartUpload(server=server, bucket=bucket, key=item.object_name, upload_id=item.upload_id)
        if not page.is_truncated or not page.uploads:
            return
        key_marker, id_marker = page.uploads[-1].object_name, page.uploads[-1].upload_id


def abandon_uploads(server: S3Client, bucket: str, prefix: str) -> int:
    """Give up every upload below a prefix that the server tells of; returns how many.

    One that can't be given up is left to the bucket's own rule for incomplete uploads: it is in nobody's way.
    """
    given_up = 0
    try:
        for upload in open_uploads(server, bucket, prefix):
            if upload.key.startswith(prefix):
                upload.abort()
                given_up += 1
    except StoreError:
        pass
    return given_up
