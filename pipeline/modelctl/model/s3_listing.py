"""What a prefix of an S3 server holds, as the files that it will be on disk.

A key is whatever its writer wanted. One that leaves the folder, or that no disk can hold beside the others, is never
fetched: it becomes a `PathProblem`, which is a finding of the integrity check.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from modelctl.documents import nearest
from modelctl.errors import InputError
from modelctl.model.s3_client import Listed, S3Client
from modelctl.model.s3_faults import NoSuchBucketError
from modelctl.model.tree import MAX_FILES, PathProblem

_URI = re.compile(r"s3://(?P<bucket>[^/\s]+)(/(?P<prefix>.*))?", re.DOTALL)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f]|[\ud800-\udfff]")
MAX_NAME_BYTES = 255
"""Of one part of a path, on every usual file system of Linux."""
MAX_SUGGESTIONS = 1000


@dataclass(frozen=True, kw_only=True)
class S3Prefix:
    """A folder of an S3 server. `prefix` is "" for the whole bucket and ends with a slash otherwise."""

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, uri: str) -> S3Prefix:
        """Read `s3://bucket/prefix`. Raises `InputError` for what no prefix can be."""
        found = _URI.fullmatch(uri)
        prefix = (found["prefix"] or "").strip("/") if found else ""
        if not found or not _BUCKET.fullmatch(found["bucket"]) or (prefix and unsafe(prefix)):
            raise InputError(f"{uri!a} is no S3 prefix", remedy="write s3://BUCKET/PREFIX of the model's folder")
        return cls(bucket=found["bucket"], prefix=f"{prefix}/" if prefix else "")

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


@dataclass(frozen=True, kw_only=True)
class S3Listing:
    """The objects below a prefix at one moment, by path relative to it."""

    where: S3Prefix
    files: Mapping[str, Listed]
    problems: tuple[PathProblem, ...]
    markers: int
    """Empty objects whose key ends with a slash: what some tools make for a folder. They hold nothing."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(item.size_bytes for item in self.files.values())

    @property
    def state(self) -> str:
        """64 hex digits that another listing has too when no object was added, removed or written anew."""
        digest = hashlib.sha256()
        for path, item in sorted(self.files.items()):
            digest.update(repr((path, item.size_bytes, item.etag, item.modified)).encode())
        for problem in self.problems:
            digest.update(repr((problem.path, problem.kind)).encode())
        return digest.hexdigest()


def unsafe(path: str) -> str | None:
    """Why a path can't be a file's in a folder, on any system; None when it can."""
    parts = path.split("/")
    if _FORBIDDEN.search(path):
        return "holds control characters or no characters at all"
    if ".." in parts:
        return "leads out of the folder"
    if path.startswith("/"):
        return "is absolute"
    if "" in parts or "." in parts:
        return "has an empty part: two keys would be one file"
    if "\\" in path or ":" in path:
        return "holds a character that leads elsewhere on some systems"
    if any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        return f"has a part of more than {MAX_NAME_BYTES} bytes"
    return None


def list_prefix(client: S3Client, where: S3Prefix) -> S3Listing:
    """Ask the server once. Raises `InputError` when the bucket or the prefix is not there, `StoreError`."""
    try:
        listing = plan(client.listing(where.bucket, where.prefix), where)
        if listing.files or listing.problems:
            return listing
        raise _nothing(client, where)
    except NoSuchBucketError as error:
        raise InputError(
            f"{where}: {client.place(where.bucket)} does not exist",
            remedy="check the bucket's name and store.endpoint (modelctl config show)",
        ) from error


def plan(objects: Iterable[Listed], where: S3Prefix) -> S3Listing:
    """Which objects become which files. Raises `InputError` over 100,000 of them."""
    files: dict[str, Listed] = {}
    problems: list[PathProblem] = []
    markers = 0
    for count, item in enumerate(objects):
        if count >= MAX_FILES:
            raise InputError(f"{where}: more than {MAX_FILES} objects", remedy="name the model's own prefix")
        path = item.key.removeprefix(where.prefix)
        if not item.size_bytes and (path.endswith("/") or not path):
            markers += 1
        elif (reason := unsafe(path)) is not None:
            problems.append(_problem(path, f"the key {item.key!a} {reason}"))
        else:
            files[path] = item
    for path in _folders_of(files) & files.keys():
        del files[path]
        problems.append(_problem(path, "is an object and a folder of other objects: a disk holds only one of them"))
    problems.sort(key=lambda problem: problem.path)
    return S3Listing(where=where, files=dict(sorted(files.items())), problems=tuple(problems), markers=markers)


def _problem(path: str, detail: str) -> PathProblem:
    return PathProblem(path=ascii(path)[1:-1], kind="unsafe-key", detail=detail)


def _folders_of(paths: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def _nothing(client: S3Client, where: S3Prefix) -> InputError:
    """The error for a prefix without objects, naming the one that may have been meant."""
    above, _, name = where.prefix.rstrip("/").rpartition("/")
    names = _names(client, where.bucket, f"{above}/" if above else "")
    if name and name in names:
        return InputError(f"{where} is one object, wanted a model's folder", remedy="name the prefix that holds it")
    names = [item.rstrip("/") for item in names]
    while not names and above:
        above, _, name = above.rpartition("/")
        names = [item.rstrip("/") for item in _names(client, where.bucket, f"{above}/" if above else "")]
    close, parent = nearest(name, names), f"s3://{where.bucket}/{above}".rstrip("/")
    there = ", ".join(ascii(item)[1:-1] for item in names[:5]) + (" …" if len(names) > 5 else "")
    return InputError(
        f"{where}: no object of {client.place(where.bucket)} begins with that",
        remedy=f"did you mean {parent}/{close}?" if close else f"{parent} holds {there or 'nothing'}",
    )


def _names(client: S3Client, bucket: str, prefix: str) -> list[str]:
    """What the first thousand keys that begin with `prefix` go on with, folders with a slash at the end."""
    keys = islice(client.folders(bucket, prefix), MAX_SUGGESTIONS)
    return [key.removeprefix(prefix) for key in keys if key != prefix]
