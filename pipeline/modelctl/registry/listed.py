"""The files that an admission hashed, kept beside its report so that a publication need not hash them before it sends.

The list proves itself: its digest is the one that the report names. Of the folder nothing is believed: one with other
names or sizes is hashed anew, and each file is hashed once more as it is sent, or by `refuse_other_bytes` where it
isn't.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from modelctl.documents import Document
from modelctl.errors import RefusedError
from modelctl.files import write_whole
from modelctl.model.hashing import Hashed, hash_files
from modelctl.model.tree import FileEntry, Scan, Tree, scan_tree
from modelctl.model.walk import walk
from modelctl.progress import SILENT, Progress
from modelctl.registry.manifest import ServedFile, as_tree


class FileList(Document):
    """The files of a tree."""

    schema_version: Literal["1"] = "1"
    files: Annotated[tuple[ServedFile, ...], Field(min_length=1)]

    @classmethod
    def of(cls, tree: Tree) -> FileList:
        """What `tree` holds."""
        return cls(files=tuple(ServedFile(**entry._asdict()) for entry in tree.files))

    def to_json(self) -> str:
        """JSON with a final newline."""
        return json.dumps(self.model_dump(), indent=2, sort_keys=True) + "\n"


def list_path(report: Path) -> Path:
    """Where the list of a report's served files is kept: `report.json` has `report.files.json`."""
    return report.with_suffix(".files.json")


def keep_list(report: Path, tree: Tree | None) -> None:
    """Keep the list of the served files beside their report, or remove an earlier one's where there are none."""
    if tree is None or tree.problems or not tree.files:
        list_path(report).unlink(missing_ok=True)
        return
    try:
        text = FileList.of(tree).to_json()
    except ValidationError:  # a name that no release can have
        list_path(report).unlink(missing_ok=True)
        return
    write_whole(list_path(report), text)


def scan_by_list(report: Path, digest: str | None) -> Scan:
    """`scan_tree`, but a folder with just the names and sizes of the list beside `report` is not read.

    A list that is not there, can't be read or has another digest than the report's is none.
    """
    try:
        listed = as_tree(FileList.model_validate_json(list_path(report).read_bytes()).files)
    except (OSError, ValidationError):
        return scan_tree
    if listed.digest != digest:
        return scan_tree

    def scan(root: Path, *, link_roots: Sequence[Path] = (), progress: Progress = SILENT) -> Tree:
        if root.is_dir() and _looks_right(root.resolve(), link_roots, listed):
            return Tree(root=root.resolve(), files=listed.files, hashed=False)
        return scan_tree(root, link_roots=link_roots, progress=progress)

    return scan


def refuse_other_bytes(tree: Tree, entries: Iterable[FileEntry], progress: Progress = SILENT) -> None:
    """Hash files of a tree now. Raises `RefusedError` that names the first whose bytes are not the listed ones."""
    wanted = list(entries)
    with progress.task("hash files", total=sum(entry.size_bytes for entry in wanted), unit="bytes") as task:
        outcomes = hash_files([str(tree.location(entry.path)) for entry in wanted], on_bytes=task.advance)
    for entry, outcome in zip(wanted, outcomes, strict=True):
        if not isinstance(outcome, Hashed) or outcome != (entry.sha256, entry.size_bytes):
            raise other_bytes(
                tree.location(entry.path), entry, outcome.detail if not isinstance(outcome, Hashed) else ""
            )


def other_bytes(path: Path, entry: FileEntry, detail: str = "") -> RefusedError:
    """A file is not what was admitted; `detail` says what is known of it."""
    return RefusedError(
        f"{path}: not the bytes that were admitted (sha256 {entry.sha256[:12]}…, {entry.size_bytes} bytes"
        + (f"; {detail})" if detail else ")"),
        remedy="find out who changed the file, then admit the release again",
    )


def _looks_right(root: Path, link_roots: Sequence[Path], listed: Tree) -> bool:
    found = walk(root, [path.resolve() for path in link_roots])
    if found.problems or len(found.paths) != len(listed.files):
        return False
    sizes = {entry.path: entry.size_bytes for entry in listed.files}
    try:
        return all(
            sizes.get(path) == Path(location).stat().st_size
            for path, location in zip(found.paths, found.locations, strict=True)
        )
    except OSError:
        return False
