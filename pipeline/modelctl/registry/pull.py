"""A verified download: believed before the first byte, hashed while it arrives, in place only when it is whole.

Running it again goes on where the last run stopped. A folder that is there already keeps its right files, which are
hashed again; what does not belong to the release is named and never touched.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from modelctl.errors import InputError, RefusedError
from modelctl.model.tree import Tree, scan_tree
from modelctl.progress import SILENT, Progress
from modelctl.registry.durable import writing_out
from modelctl.registry.incoming import Incoming
from modelctl.registry.landing import Landing, landing, sweep
from modelctl.registry.manifest import Served
from modelctl.registry.ranged import DAMAGED, SILENCE_S, Download
from modelctl.registry.store import ObjectStore


@dataclass(frozen=True, kw_only=True)
class Pulled:
    """What a download did."""

    folder: Path
    fetched: tuple[str, ...]
    """Paths that came from the bucket, wholly or the rest of them."""
    kept: tuple[str, ...]
    """Paths that were in the folder already, with the right bytes."""


def pull(
    store: ObjectStore, served: Served, destination: Path, *, repair: bool = False, progress: Progress = SILENT
) -> Pulled:
    """Bring the files of a release into `destination`; `served` is a list that was found worth believing.

    `repair` lets files of the destination that have other bytes be replaced. Raises `RefusedError` when a byte differs
    or the folder holds something else, `InputError` for a place where no folder can be, `StoreError`, `ModelctlError`
    when the disk is too full.
    """
    destination = Path(os.path.normpath(destination.absolute()))
    if destination.exists() and not destination.is_dir():
        raise InputError(f"{destination}: a file where a folder is wanted", remedy="name another folder")
    kept: set[str] = set()
    if destination.is_dir() and any(destination.iterdir()):
        found = scan_tree(destination, progress=progress, label="hash what is there")
        kept = _kept(found, served, destination, repair=repair)
        if len(kept) == len(served.files):
            sweep(destination, served)
            return Pulled(folder=destination, fetched=(), kept=tuple(sorted(kept)))
    with landing(destination, served) as place:
        for entry in served.tree.files:
            if entry.path in kept:
                place.adopt(entry)
        missing = _missing(store, served, place, kept)
        place.require_space(sum(file.entry.size_bytes for file in missing))
        total = sum(file.entry.size_bytes for file in missing)
        with writing_out() as disk, progress.task("download", total=total, unit="bytes") as task:
            Download(store=store.impatient(silence_s=SILENCE_S), task=task, disk=disk).run(missing)
        place.place([file.path for file in missing])
    return Pulled(
        folder=destination,
        fetched=tuple(file.entry.path for file in missing),
        kept=tuple(sorted(kept)),
    )


def _kept(found: Tree, served: Served, destination: Path, *, repair: bool) -> set[str]:
    """The paths of a folder that are right already. Raises `RefusedError` that names what stands in the way."""
    wanted = served.tree.by_path
    strange = [entry.path for entry in found.files if entry.path not in wanted]
    strange += [problem.path for problem in found.problems if problem.path not in wanted]
    if strange:
        raise RefusedError(
            f"{destination} holds what is not of this release: {_some(strange)}; nothing was changed",
            remedy="move it elsewhere, or name another folder",
        )
    kept = {entry.path for entry in found.files if wanted[entry.path] == entry}
    there = {entry.path for entry in found.files} | {problem.path for problem in found.problems}
    changed = sorted(there - kept)
    if changed and not repair:
        raise RefusedError(
            f"{destination} holds files of this release with other bytes: {_some(changed)}; nothing was changed",
            remedy="add --repair to replace them, or name another folder",
        )
    return kept


def _missing(store: ObjectStore, served: Served, place: Landing, kept: set[str]) -> list[Incoming]:
    """What has to come. Raises `RefusedError` when the bucket's listing shows already that it can't be right."""
    prefix = served.uri.removeprefix("s3://").partition("/")[2]  # a mirror has the same keys in another bucket
    sizes = store.sizes(f"{prefix}/")
    missing = []
    for entry in served.tree.files:
        key = f"{prefix}/{entry.path}"
        if entry.path in kept:
            continue
        if sizes.get(key) != entry.size_bytes:
            what = "missing" if key not in sizes else f"{sizes[key]} bytes long, wanted {entry.size_bytes}"
            raise RefusedError(f"{key} in {store.place} is not what was published: it is {what}", remedy=DAMAGED)
        missing.append(Incoming(entry=entry, key=key, path=place.path(entry), journal=place.journal(entry)))
    return missing


def _some(paths: list[str]) -> str:
    """The first of many paths."""
    return ", ".join(paths[:10]) + (f" and {len(paths) - 10} more" if len(paths) > 10 else "")
