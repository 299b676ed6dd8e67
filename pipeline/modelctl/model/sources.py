"""What `modelctl admit REPO` may name, resolved to a read-only snapshot on this disk.

A text is a folder when it exists as one, a Hub id when it reads `ORG/NAME[@REVISION]`; everything else is refused with
what was understood. Links out of a folder are followed only where a Hub cache has its blobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from modelctl.documents import nearest
from modelctl.errors import InputError
from modelctl.model.download import Store, fetch
from modelctl.model.hub import Hub
from modelctl.model.listing import Upstream, UpstreamFile
from modelctl.model.release import Source
from modelctl.model.tree import Tree, scan_tree
from modelctl.progress import SILENT, Progress

__all__ = ["Snapshot", "Upstream", "UpstreamFile", "resolve_source"]

DEFAULT_REVISION = "main"
WEIGHT_SUFFIXES = (".safetensors", ".gguf")
_HUB_ID = re.compile(r"(?P<id>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[\w./-]+))?")
_CACHE_COMMIT = re.compile(r"[0-9a-f]{40}")
_CACHE_REPO = re.compile(r"models--(?P<id>.+)")


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A model repository on this disk."""

    kind: Literal["folder", "hub"]
    description: str
    """What was understood, for reports: `folder ./model`, `Hub org/name@3f2a…`."""
    tree: Tree
    upstream: Upstream | None
    repo_id: str | None = None
    """The Hub repository that the files came from or are compared with."""
    asked_revision: str | None = None
    """What was asked for there: a branch, a tag or a commit (`main` when nothing was named)."""
    commit: str | None = None
    """What that resolved to."""


def resolve_source(source: Source | str, *, base: Path, store: Path, progress: Progress = SILENT) -> Snapshot:
    """Bring a source to this disk and hash it. Relative folders start at `base`; downloads are kept in `store`.

    Raises `InputError` for a text that names nothing or a folder that holds no model, `CannotDecideError` when the Hub
    cannot be asked, `RefusedError` when downloaded bytes are not the listed ones.
    """
    if isinstance(source, str):
        return _resolve_text(source, base=base, store=store, progress=progress)
    if source.hub is not None:
        return _from_hub(source.hub, source.revision or DEFAULT_REVISION, store, progress)
    folder = source.folder or Path()
    upstream = None
    if source.upstream is not None and source.upstream_revision is not None:
        upstream = Hub().listing(source.upstream, source.upstream_revision)
    return _from_folder(base / folder, str(folder), upstream, progress)


def _resolve_text(text: str, *, base: Path, store: Path, progress: Progress) -> Snapshot:
    location = base / Path(text).expanduser()
    if location.is_dir():
        return _from_folder(location, text, None, progress)
    if location.exists():
        raise InputError(
            f"'{text}' is a file, wanted a model repository's folder",
            remedy=f"modelctl admit {location.parent}" if location.suffix in (".json", *WEIGHT_SUFFIXES) else None,
        )
    named = _HUB_ID.fullmatch(text)
    if named:
        return _from_hub(named["id"], named["revision"] or DEFAULT_REVISION, store, progress)
    raise InputError(
        f"'{text}' is neither a folder on this disk nor a Hub id", remedy=_suggestion(location) or "wanted: a folder "
        "with config.json and weights, or ORG/NAME[@COMMIT]"
    )  # fmt: skip


def _suggestion(location: Path) -> str | None:
    if not location.parent.is_dir():
        return None
    close = nearest(location.name, [item.name for item in location.parent.iterdir() if item.is_dir()])
    return f"did you mean {location.parent / close}?" if close else None


def _from_hub(repo_id: str, revision: str, store: Path, progress: Progress) -> Snapshot:
    hub = Hub()
    upstream = hub.listing(repo_id, revision)
    description = f"Hub {repo_id}@{upstream.commit}"
    _require_model(description, upstream.files)
    progress.note(f"{repo_id}@{revision} is commit {upstream.commit}, {len(upstream.files)} files")
    folder = fetch(hub, upstream, Store(root=store), progress)
    return Snapshot(
        kind="hub",
        description=description,
        tree=scan_tree(folder, progress=progress),
        upstream=upstream,
        repo_id=repo_id,
        asked_revision=revision,
        commit=upstream.commit,
    )


def _from_folder(location: Path, shown: str, upstream: Upstream | None, progress: Progress) -> Snapshot:
    tree = scan_tree(location, link_roots=_cache_blobs(location), progress=progress)
    _require_model(shown, [*tree.by_path, *(problem.path for problem in tree.problems)])
    return Snapshot(
        kind="folder",
        description=f"folder {shown}{_cache_origin(location)}",
        tree=tree,
        upstream=upstream,
        repo_id=upstream.repo_id if upstream is not None else None,
        commit=upstream.commit if upstream is not None else None,
    )


def _cache_blobs(location: Path) -> tuple[Path, ...]:
    """Where links of a Hub cache's snapshot may lead: the repository's own blobs and the cache's shared ones."""
    repository = _cache_repository(location)
    if repository is None:
        return ()
    shared = repository.parent / "blobs"
    return (repository / "blobs", shared) if shared.is_dir() else (repository / "blobs",)


def _cache_repository(location: Path) -> Path | None:
    """The folder `models--<org>--<name>` above `snapshots/<commit>`, or None when this is no Hub cache."""
    location = location.resolve()
    repository = location.parent.parent
    is_snapshot = location.parent.name == "snapshots" and _CACHE_COMMIT.fullmatch(location.name)
    return repository if is_snapshot and _CACHE_REPO.fullmatch(repository.name) else None


def _cache_origin(location: Path) -> str:
    repository = _cache_repository(location)
    named = _CACHE_REPO.fullmatch(repository.name) if repository else None
    return f" (Hub cache of {named['id'].replace('--', '/')}@{location.resolve().name})" if named else ""


def _require_model(shown: str, paths: Iterable[str]) -> None:
    names = list(paths)
    if "config.json" in names or any(name.endswith(WEIGHT_SUFFIXES) for name in names):
        return
    some = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    raise InputError(
        f"{shown}: not a model repository: no config.json and no {' or '.join(WEIGHT_SUFFIXES)} file; it holds {some}",
        remedy="name the folder that holds config.json and the weights",
    )
