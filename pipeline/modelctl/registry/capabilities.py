"""What an S3 server can do, tried on objects of our own below `.modelctl/probe`: probed and said, never assumed.

Servers answer requests that they do not know with success, so each answer is held against what must follow from it: a
condition must refuse, a copy must hold the bytes, a copied part must have its size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields

from modelctl.model.s3_faults import StoreError, translated
from modelctl.registry.multipart import MultipartUpload
from modelctl.registry.store import PROBE_KEY, ObjectStore

CONTENT = b"modelctl\n"
_LOCKED = b"<ObjectLockEnabled>Enabled</ObjectLockEnabled>"


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What the server did when it was asked to; False where it refused, ignored or did not understand."""

    conditional_writes: bool
    """`If-None-Match: *` keeps two publishers of one version apart."""
    keeps_metadata: bool
    """An object's sha256 comes back with it: what the bucket holds already can be recognised."""
    copies: bool
    """A file that the bucket holds is copied on the server."""
    copies_parts: bool
    """The same for files over 5 GiB."""
    lists_parts: bool
    """An interrupted upload goes on inside a file."""
    keeps_etags: bool
    """An ETag is kept with its object: a look or a listing reads no bytes."""
    versioning: bool
    """The bucket keeps what is overwritten or removed."""
    object_lock: bool
    """The bucket can forbid to change or remove an object until a date."""

    def lacks(self) -> tuple[str, ...]:
        """Names of what it can't do, as people write them."""
        return tuple(NAMES[field.name] for field in fields(self) if not getattr(self, field.name))

    def has(self) -> tuple[str, ...]:
        """Names of what it can do."""
        return tuple(NAMES[field.name] for field in fields(self) if getattr(self, field.name))


NAMES = {
    "conditional_writes": "conditional writes",
    "keeps_metadata": "metadata",
    "copies": "copies on the server",
    "copies_parts": "copies over 5 GiB",
    "lists_parts": "lists of parts",
    "keeps_etags": "kept ETags",
    "versioning": "versioning",
    "object_lock": "object lock",
}


def probe(store: ObjectStore) -> Capabilities:
    """Try each on the bucket, which must be there; about a dozen small requests.

    Raises `StoreError` when the bucket can't be written to at all.
    """
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    key, copied = f"{PROBE_KEY}-source", f"{PROBE_KEY}-copy"
    store.put_whole(key, CONTENT, sha256=sha256)
    source = store.stat(key)

    def copies() -> bool:
        if source is None:
            return False
        store.copy(source, copied, sha256)
        return store.read(copied) == CONTENT

    parts_listed, parts_copied = _parts(store, key)
    found = Capabilities(
        conditional_writes=any(not store.put_conditionally(PROBE_KEY, CONTENT) for _ in range(2)),
        keeps_metadata=source is not None and source.sha256 == sha256,
        copies=_does(copies),
        copies_parts=parts_copied,
        lists_parts=parts_listed,
        keeps_etags=_does(lambda: _etag_is_of_parts(store)),
        versioning=_does(lambda: store.server.minio.get_bucket_versioning(store.bucket).status == "Enabled", store),
        object_lock=_does(lambda: _object_lock(store), store),
    )
    for name in (key, copied):
        with suppress(StoreError):  # a user who may write and not remove
            store.remove(name)
    return found


def _parts(store: ObjectStore, source: str) -> tuple[bool, bool]:
    """Whether a part that was sent is listed with its size, and whether one that was copied is."""
    with _upload(store) as upload:
        if upload is None:
            return False, False
        listed = _does(lambda: _sent_and_listed(upload))
        copied = listed and _does(lambda: _copied_and_listed(upload, source))
    return listed, copied


@contextmanager
def _upload(store: ObjectStore) -> Iterator[MultipartUpload | None]:
    try:
        upload = MultipartUpload.start(store.server, store.bucket, f"{PROBE_KEY}-parts", {})
    except StoreError:
        yield None
        return
    try:
        yield upload
    finally:
        with suppress(StoreError):
            upload.abort()


def _sent_and_listed(upload: MultipartUpload) -> bool:
    upload.put(1, CONTENT)
    part = upload.parts().get(1)
    return part is not None and part.size_bytes == len(CONTENT)


def _copied_and_listed(upload: MultipartUpload, source: str) -> bool:
    upload.copy(2, source, first=0, last=len(CONTENT) - 1, source_etag="")
    part = upload.parts().get(2)
    return part is not None and part.size_bytes == len(CONTENT)


def _etag_is_of_parts(store: ObjectStore) -> bool:
    """Whether an object that came in parts has another ETag than the md5 of its bytes.

    A server that has the md5 of bytes which it got in parts has read them anew to take it.
    """
    key = f"{PROBE_KEY}-whole"
    upload = MultipartUpload.start(store.server, store.bucket, key, {})
    upload.complete({1: upload.put(1, CONTENT)})
    there = store.stat(key)
    with suppress(StoreError):
        store.remove(key)
    plain = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    return there is not None and there.size_bytes == len(CONTENT) and there.etag not in ("", plain)


def _object_lock(store: ObjectStore) -> bool:
    answer = store.server.minio._execute("GET", store.bucket, query_params={"object-lock": ""})
    return _LOCKED in bytes(answer.data)


def _does(ask: Callable[[], bool], store: ObjectStore | None = None) -> bool:
    """The answer; False when the server refuses, does not know how, or answers with something else."""
    try:
        if store is None:
            return ask()
        with translated("look at the bucket", store.place):
            return ask()
    except (StoreError, SyntaxError):  # the latter is what ElementTree's ParseError is
        return False
