"""The files of a repository one by one: like the upstream's, in their place, what their names promise, and no giants.

Nothing is ignored: there is no list of names or folders that are left out, and hidden ones count (`IGNORED`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from modelctl.model.content import ARCHIVES, SERIALIZED, WINDOW_BYTES, ContentKind, lfs_pointer
from modelctl.model.listing import Upstream, UpstreamFile, file_digest
from modelctl.model.tree import FileEntry, Tree

WeightFormat = Literal["safetensors", "gguf", "pytorch"]
IGNORED: tuple[str, ...] = ()
"""Patterns of files that are not looked at: none, and a report says so."""
SPARSE_BYTES = 1 << 20
"""Files up to this size may be sparse: file systems keep small ones in other ways than in blocks."""

_BLOCK_BYTES = 512
"""What `st_blocks` counts in, on every system (POSIX leaves it open, Linux and macOS have 512)."""
_OTHER_WEIGHTS = frozenset(
    {
        ".bin", ".ckpt", ".h5", ".hdf5", ".joblib", ".keras", ".mlmodel", ".msgpack", ".nemo", ".npy", ".npz", ".onnx",
        ".onnx_data", ".ot", ".pb", ".pickle", ".pkl", ".pt", ".pth", ".tflite",
    }
)  # fmt: skip
"""Suffixes of weights that no allowed format has, some of which engines load by suffix alone."""
_PYTORCH = frozenset({".bin", ".ckpt", ".pt", ".pth"})
"""Suffixes of what `torch.save` writes."""
_TEXTUAL = (".json", ".jinja", ".txt", ".model", ".safetensors", ".gguf", ".py", ".yaml", ".yml")


@dataclass(frozen=True, kw_only=True)
class FileProblem:
    """One way in which a file, or all of them together, are not what they must be."""

    path: str | None
    kind: str
    """One of: upstream-missing, upstream-changed, upstream-extra, stray-file, lfs-pointer, format, disguised, sparse,
    too-many-files, too-large."""
    detail: str


def compare_upstream(tree: Tree, upstream: Upstream) -> Iterator[FileProblem]:
    """Every difference between the tree and an official listing. Raises `OSError`."""
    where = f"{upstream.repo_id}@{upstream.commit[:12]}"
    for path, listed in sorted(upstream.files.items()):
        entry = tree.by_path.get(path)
        if entry is None:
            detail = f"{where} has this file, the repository under test has not"
            yield FileProblem(path=path, kind="upstream-missing", detail=detail)
            continue
        found = _digest(tree, entry, listed)
        if entry.size_bytes != listed.size_bytes or found != listed.digest:
            kind = "sha256" if listed.sha256 else "git blob sha1"
            got = f"{kind} {found} ({entry.size_bytes} bytes)"
            detail = f"got {got}, {where} lists {listed.digest} ({listed.size_bytes} bytes)"
            yield FileProblem(path=path, kind="upstream-changed", detail=detail)
    for entry in tree.files:
        if entry.path not in upstream.files:
            yield FileProblem(path=entry.path, kind="upstream-extra", detail=f"{where} has no such file")


def _digest(tree: Tree, entry: FileEntry, listed: UpstreamFile) -> str:
    return entry.sha256 if listed.sha256 is not None else file_digest(tree.location(entry.path), listed)


def check_stray(tree: Tree, upstream: Upstream | None) -> Iterator[FileProblem]:
    """Hidden folders and bytecode that an upstream does not list: caches and repositories that tools leave behind."""
    listed = upstream.files if upstream is not None else {}
    for entry in tree.files:
        folders = entry.path.split("/")[:-1]
        stray = [folder for folder in folders if folder.startswith(".") or folder == "__pycache__"]
        if stray and entry.path not in listed:
            yield FileProblem(path=entry.path, kind="stray-file", detail=f"lies in the folder {stray[0]}")


def check_extent(tree: Tree, *, max_files: int, max_bytes: int) -> Iterator[FileProblem]:
    """Too many files, too many bytes, and files that claim bytes which no disk holds. Raises `OSError`."""
    if len(tree.files) > max_files:
        detail = f"{len(tree.files)} files, the policy's integrity.max_files is {max_files}"
        yield FileProblem(path=None, kind="too-many-files", detail=detail)
    if tree.size_bytes > max_bytes:
        detail = f"{tree.size_bytes} bytes in all, the policy's integrity.max_bytes is {max_bytes}"
        yield FileProblem(path=None, kind="too-large", detail=detail)
    for entry in tree.files:
        if entry.size_bytes > SPARSE_BYTES:
            location = tree.location(entry.path)
            held = _held_bytes(location, entry.size_bytes)
            if held < entry.size_bytes // 2 and _has_hole(location, entry.size_bytes):
                detail = (
                    f"{entry.size_bytes} bytes, of which the disk holds {held}: the rest is a hole that reads as zeros"
                )
                yield FileProblem(path=entry.path, kind="sparse", detail=detail)


def _held_bytes(location: Path, size: int) -> int:
    """Bytes that a file takes on the disk; its size where the system does not say."""
    return int(getattr(location.stat(), "st_blocks", size)) * _BLOCK_BYTES


def _has_hole(location: Path, size: int) -> bool:
    """Whether part of a file was never written. Compressed files take few blocks too, and have no hole."""
    with location.open("rb") as stream:
        try:
            return os.lseek(stream.fileno(), 0, os.SEEK_HOLE) < size
        except OSError:
            return False


def check_content(
    tree: Tree, kinds: Mapping[str, ContentKind], formats: tuple[WeightFormat, ...]
) -> Iterator[FileProblem]:
    """Files whose content is not what their names promise, or a format that is not allowed. Raises `OSError`."""
    allowed = ", ".join(formats)
    for entry in tree.files:
        path, kind, suffix = entry.path, kinds[entry.path], PurePosixPath(entry.path.lower()).suffix
        if kind is ContentKind.LFS_POINTER:
            with tree.location(path).open("rb") as stream:
                pointer = lfs_pointer(stream.read(WINDOW_BYTES))
            for_what = f" for {pointer[1]} bytes with sha256 {pointer[0]}" if pointer else ""
            detail = f"a Git LFS pointer{for_what}, not the file itself"
            yield FileProblem(path=path, kind="lfs-pointer", detail=detail)
        elif "pytorch" in formats and is_pytorch(path, kind):
            continue  # a pickle: what it may run is for the malware check to say
        elif kind in SERIALIZED | ARCHIVES or kind is ContentKind.EXECUTABLE:
            detail = f"is {kind} by content; allowed weight formats are {allowed}"
            yield FileProblem(path=path, kind="format", detail=detail)
        elif suffix in _OTHER_WEIGHTS:
            detail = f"a {suffix} file ({kind}); allowed weight formats are {allowed}"
            yield FileProblem(path=path, kind="format", detail=detail)
        elif kind.name.lower() in ("safetensors", "gguf") and kind.name.lower() not in formats:
            detail = f"is {kind}; allowed weight formats are {allowed}"
            yield FileProblem(path=path, kind="format", detail=detail)
        elif (wanted := _wanted(suffix, kind)) is not None:
            yield FileProblem(path=path, kind="disguised", detail=f"is {kind} by content, wanted {wanted}")


def is_pytorch(path: str, kind: ContentKind) -> bool:
    """Whether name and content both say that `torch.save` wrote the file."""
    return kind in (ContentKind.PICKLE, ContentKind.TORCH_ZIP) and PurePosixPath(path.lower()).suffix in _PYTORCH


def _wanted(suffix: str, kind: ContentKind) -> str | None:
    """What the name promises, when the content is something else."""
    match suffix:
        case ".safetensors":
            broken = kind in (ContentKind.SAFETENSORS, ContentKind.BINARY, ContentKind.EMPTY)
            return None if broken else "safetensors"
        case ".gguf":
            return None if kind is ContentKind.GGUF else "GGUF"
        case ".json":
            return None if kind is ContentKind.JSON else "JSON"
        case _ if suffix in _TEXTUAL and kind is ContentKind.HTML:
            return "the file itself, not a web page"
        case _:
            return None
