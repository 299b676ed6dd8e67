"""What an official repository says of its files at one commit, and how a file is held against it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class Digest(Protocol):
    """A running hash."""

    def update(self, data: bytes, /) -> None:
        """Take in the next bytes."""

    def hexdigest(self) -> str:
        """The hash so far, in hex."""


@dataclass(frozen=True, kw_only=True)
class UpstreamFile:
    """What the official repository says of one file: LFS files have a sha256, others a git blob sha1."""

    path: str
    size_bytes: int
    sha256: str | None
    blob_sha1: str | None

    @property
    def digest(self) -> str:
        """The hash that the repository gives: 64 hex digits for an LFS file, 40 for another."""
        digest = self.sha256 or self.blob_sha1
        if digest is None:
            raise ValueError(f"{self.path}: a listing without a hash")
        return digest


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """The official listing at one pinned commit."""

    repo_id: str
    commit: str
    files: Mapping[str, UpstreamFile]


def new_digest(file: UpstreamFile, *, size_bytes: int) -> Digest:
    """A running hash of the kind that the listing gives for this file.

    sha256 over the bytes for an LFS file; for another git's blob hash, sha1 over `blob <size> NUL` and the bytes.
    """
    if file.sha256 is not None:
        return hashlib.sha256()
    digest = hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % size_bytes)
    return digest


def file_digest(path: Path, file: UpstreamFile, advance: Callable[[int], object] = lambda _: None) -> str:
    """The hash in hex of a file on disk, of the kind that the listing gives for it. Raises `OSError`.

    `advance` is told the size of each block in bytes; what it raises ends the reading.
    """
    with path.open("rb", buffering=0) as stream:
        digest = new_digest(file, size_bytes=stream.seek(0, 2))
        stream.seek(0)
        while block := stream.read(1 << 20):
            digest.update(block)
            advance(len(block))
    return digest.hexdigest()
