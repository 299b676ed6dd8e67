"""What `modelctl admit REPO` may name, resolved to a read-only snapshot on this disk.

A text with a scheme (`s3://…`, `hub:…`) is what it says. Else it is a folder or a DVC pointer when that exists, and a
Hub id when it reads `ORG/NAME[@REVISION]`; where a text could be two things, the choice is said and how to name the
other. Links out of a folder are followed only where a Hub cache has its blobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from modelctl.errors import InputError, RefusedError
from modelctl.model import dvc_pointer, dvc_source
from modelctl.model.download import Store, fetch
from modelctl.model.hub import Hub
from modelctl.model.hub_cache import find_cache
from modelctl.model.listing import Upstream
from modelctl.model.release import Source
from modelctl.model.s3_client import S3Client
from modelctl.model.s3_listing import S3Prefix, list_prefix
from modelctl.model.s3_source import fetch_prefix
from modelctl.model.source_names import (
    DEFAULT_REVISION,
    HUB_SCHEME,
    S3_SCHEME,
    hub_name,
    names_nothing,
    reads_as_hub_id,
    upstream_name,
)
from modelctl.model.tree import Scan, Tree, scan_tree
from modelctl.progress import SILENT, Progress
from modelctl.settings import Store as StoreSettings

WEIGHT_SUFFIXES = (".safetensors", ".gguf")


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A model repository on this disk."""

    kind: Literal["folder", "hub", "s3", "dvc"]
    description: str
    """What was understood, for reports: `folder ./model`, `Hub org/name@3f2a…`."""
    tree: Tree
    upstream: Upstream | None
    repo_id: str | None = None
    """The Hub repository that the files come from or are compared with; a Hub cache's folder has only its word."""
    asked_revision: str | None = None
    """Branch, tag or commit at which it was asked for; None for a folder that was not compared."""
    commit: str | None = None
    """The commit that it was, 40 hex digits."""


@dataclass(frozen=True, kw_only=True)
class _Resolver:
    base: Path
    store: Path
    s3: Callable[[], S3Client]
    progress: Progress
    official: tuple[Upstream, str] | None
    """What the files must equal, and the revision at which it was asked for."""
    scan: Scan

    def text(self, text: str) -> Snapshot:
        """What a person named."""
        if text.startswith(S3_SCHEME):
            return self.s3_prefix(text)
        if text.startswith(HUB_SCHEME):
            return self.hub(*hub_name(text))
        location = self.base / Path(text).expanduser()
        reads_as_id = reads_as_hub_id(text)
        if location.is_dir():
            if reads_as_id:
                self.progress.note(
                    f"'{text}' is a folder here and could be a Hub id: the folder is taken; "
                    f"{HUB_SCHEME}{text} names the repository at the Hub"
                )
            return self.folder(location, text)
        if location.suffix == dvc_pointer.SUFFIX and location.exists():
            return self.dvc(location, text)
        if location.exists():
            raise InputError(
                f"'{text}' is a file, wanted a model repository's folder",
                remedy=f"modelctl admit {location.parent}" if location.suffix in (".json", *WEIGHT_SUFFIXES) else None,
            )
        if reads_as_id:
            return self.hub(*hub_name(text))
        raise names_nothing(text, location)

    def source(self, source: Source) -> Snapshot:
        """What a release file names."""
        if source.hub is not None:
            return self.hub(source.hub, source.revision or DEFAULT_REVISION)
        if source.s3 is not None:
            return self.s3_prefix(source.s3)
        if source.dvc is not None:
            return self.dvc(self.base / source.dvc, str(source.dvc))
        folder = source.folder or Path()
        return self.folder(self.base / folder, str(folder))

    def hub(self, repo_id: str, revision: str) -> Snapshot:
        """A repository of the Hub, at the commit that a revision is now."""
        if self.official is not None:
            raise InputError(
                f"{repo_id} is an official repository itself: there is nothing to compare it with",
                remedy="leave out --upstream, or name a folder, an S3 prefix or a DVC pointer",
            )
        hub = Hub(progress=self.progress)
        upstream = hub.listing(repo_id, revision)
        description = f"Hub {repo_id}@{upstream.commit}"
        _require_model(description, upstream.files)
        self._understood(f"{repo_id}@{revision}", f"{description}, {len(upstream.files)} files")
        folder = fetch(hub, upstream, Store(root=self.store), self.progress)
        return Snapshot(
            kind="hub",
            description=description,
            tree=self.scan(folder, progress=self.progress),
            upstream=upstream,
            repo_id=repo_id,
            asked_revision=revision,
            commit=upstream.commit,
        )

    def folder(self, location: Path, shown: str) -> Snapshot:
        """A folder as it is now."""
        cache = find_cache(location)
        origin = f" (Hub cache of {cache.repo_id}@{cache.commit})" if cache else ""
        description = f"folder {shown}{origin}"
        self._understood(shown, description)
        tree = self.scan(location, link_roots=cache.blob_folders if cache else (), progress=self.progress)
        _require_model(shown, [*tree.by_path, *(problem.path for problem in tree.problems)])
        return self._compared(
            Snapshot(
                kind="folder",
                description=description,
                tree=tree,
                upstream=None,
                repo_id=cache.repo_id if cache else None,
                commit=cache.commit if cache else None,
            )
        )

    def s3_prefix(self, uri: str) -> Snapshot:
        """What a prefix of the object store holds now."""
        client = self.s3()
        where = S3Prefix.parse(uri)
        listing = list_prefix(client, where)
        description = f"S3 {where} at {client.endpoint}"
        _require_model(description, [*listing.files, *(problem.path for problem in listing.problems)])
        ignored = f"; {listing.markers} folder markers (empty, no file) are left out" if listing.markers else ""
        self._understood(uri, f"{description}, {len(listing.files)} objects{ignored}")
        folder = fetch_prefix(client, listing, self.store, self.progress)
        tree = self.scan(folder, progress=self.progress)
        tree = replace(tree, problems=(*listing.problems, *tree.problems))
        return self._compared(Snapshot(kind="s3", description=description, tree=tree, upstream=None))

    def dvc(self, location: Path, shown: str) -> Snapshot:
        """What a DVC pointer points at."""
        pointer = dvc_pointer.read_pointer(location)
        description = dvc_source.describe_pointer(pointer, shown)
        self._understood(shown, description)
        folder = dvc_source.fetch_pointer(pointer, self.store, self.progress)
        tree = self.scan(folder, progress=self.progress)
        _require_model(shown, [*tree.by_path, *(problem.path for problem in tree.problems)])
        return self._compared(Snapshot(kind="dvc", description=description, tree=tree, upstream=None))

    def _compared(self, snapshot: Snapshot) -> Snapshot:
        """The same files, to be held against the official listing where one was named."""
        if self.official is None:
            return snapshot
        upstream, revision = self.official
        return replace(
            snapshot,
            description=f"{snapshot.description}, compared with {upstream.repo_id}@{upstream.commit}",
            upstream=upstream,
            repo_id=upstream.repo_id,
            asked_revision=revision,
            commit=upstream.commit,
        )

    def _understood(self, named: str, what: str) -> None:
        self.progress.note(f"{named} is understood as {what}")


def resolve_source(
    source: Source | str,
    *,
    base: Path,
    store: Path,
    progress: Progress = SILENT,
    s3: Callable[[], S3Client] = lambda: S3Client.open(StoreSettings()),
    upstream: str | None = None,
    scan: Scan = scan_tree,
) -> Snapshot:
    """Bring a source to this disk and hash it. Relative paths start at `base`; downloads are kept in `store`.

    `scan` makes a folder a tree. `s3` opens the object store when one is named. `upstream` is `ORG/NAME@REVISION` of
    the official repository that a text's files must equal.

    Raises `InputError` for a text that names nothing or a folder that holds no model, `CannotDecideError` when the Hub
    or a program that is needed can't be asked, `StoreError`, `RefusedError` when downloaded bytes are not the listed or
    pinned ones.
    """
    if isinstance(source, str):
        named = upstream_name(upstream) if upstream is not None else None
    else:
        named = (source.upstream, source.upstream_revision) if source.upstream and source.upstream_revision else None
    official = None
    if named is not None:  # asked first: what can't be compared need not be fetched
        official = (Hub(progress=progress).listing(*named), named[1])
        progress.note(f"compared with {named[0]}@{named[1]}: commit {official[0].commit}")
    resolver = _Resolver(base=base, store=store, s3=s3, progress=progress, official=official, scan=scan)
    if isinstance(source, str):
        return resolver.text(source)
    snapshot = resolver.source(source)
    if source.digest is not None and snapshot.tree.digest != source.digest:
        raise RefusedError(
            f"{snapshot.description}: the files make {snapshot.tree.digest}, the release file pins {source.digest}",
            remedy="find out who changed the files, or propose another version with their digest",
        )
    return snapshot


def _require_model(shown: str, paths: Iterable[str]) -> None:
    names = list(paths)
    if "config.json" in names or any(name.endswith(WEIGHT_SUFFIXES) for name in names):
        return
    some = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    pointer = next((name for name in names if name.endswith(dvc_pointer.SUFFIX)), None)
    raise InputError(
        f"{shown}: not a model repository: no config.json and no {' or '.join(WEIGHT_SUFFIXES)} file; it holds {some}",
        remedy=f"name the DVC pointer: modelctl admit {shown}/{pointer}"
        if pointer
        else "name the folder that holds config.json and the weights",
    )
