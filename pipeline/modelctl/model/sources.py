"""What `modelctl admit REPO` may name, resolved to a read-only snapshot on this disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from modelctl.model.tree import Tree


@dataclass(frozen=True, kw_only=True)
class UpstreamFile:
    """What the official repository says of one file: LFS files have a sha256, others a git blob sha1."""

    path: str
    size_bytes: int
    sha256: str | None
    blob_sha1: str | None


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """The official listing at one pinned commit."""

    repo_id: str
    commit: str
    files: Mapping[str, UpstreamFile]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A model repository on this disk."""

    kind: Literal["folder", "hub"]
    description: str
    """What was understood, for reports: `folder ./model`, `Hub org/name@3f2a…`."""
    tree: Tree
    upstream: Upstream | None
