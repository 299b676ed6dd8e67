"""A snapshot in a Hub cache on this disk: `models--<org>--<name>/snapshots/<commit>`, whose files link to blobs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(r"models--(?P<id>.+)")


@dataclass(frozen=True, kw_only=True)
class CachedSnapshot:
    """What the folders' names say, and where links of the snapshot may lead."""

    repo_id: str
    commit: str
    blob_folders: tuple[Path, ...]
    """The repository's own blobs and, where there are any, the cache's shared ones."""


def find_cache(location: Path) -> CachedSnapshot | None:
    """The cached snapshot that a folder is, or None when it is none."""
    location = location.resolve()
    repository = location.parent.parent
    named = _REPOSITORY.fullmatch(repository.name)
    if named is None or location.parent.name != "snapshots" or not _COMMIT.fullmatch(location.name):
        return None
    own, shared = repository / "blobs", repository.parent / "blobs"
    return CachedSnapshot(
        repo_id=named["id"].replace("--", "/"),
        commit=location.name,
        blob_folders=(own, shared) if shared.is_dir() else (own,),
    )
