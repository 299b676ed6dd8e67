"""A DVC pointer (`weights.dvc`): what it pins, and whether a folder is exactly that.

DVC names a file by the md5 of its bytes, and a folder by the md5 of a JSON list of its files' md5s and paths, sorted by
path. Both can be worked out from the bytes alone, so nothing that DVC keeps has to be believed. A pointer that was made
with `dvc import-url --no-download` names no md5 of bytes but ETags of the server; for objects that were sent in one
piece these are the same md5s, and only then can it be decided.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelctl.documents import parse_yaml, read_text
from modelctl.errors import CannotDecideError, InputError, RefusedError
from modelctl.model.s3_listing import unsafe
from modelctl.model.tree import scan_tree

_MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")
_TREE_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_IMPORTED_FROM = re.compile(r"(remote|s3)://[^\s\x00-\x1f]+")
SUFFIX = ".dvc"
BLOCK_BYTES = 1 << 20
_ADD_ANEW = "make the pointer anew with DVC 3: dvc add FOLDER, or dvc import-url s3://BUCKET/PREFIX FOLDER"


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """One output of one pointer file."""

    path: Path
    """The pointer file."""
    output: str
    """What it points at: the name of a file or folder beside it."""
    md5: str | None
    """32 hex digits, of a file's bytes or with `.dir` of a folder's list; see `by_tags`. None only where `tree_digest`
    decides: modelctl leaves it out where a server would read every byte to list an ETag."""
    by_tags: bool
    """The md5 is of a server's ETags: it holds only where these are md5s themselves."""
    size_bytes: int | None
    """Of all files together, as the pointer says."""
    tree_digest: str | None = None
    """The tree digest that modelctl wrote into it at a publication: it decides instead of the md5."""

    @property
    def is_folder(self) -> bool:
        """Whether it points at a folder."""
        return self.md5 is None or self.md5.endswith(".dir")


def read_pointer(path: Path) -> Pointer:
    """Read a pointer file. Raises `InputError` for what is no pointer, and for what modelctl does not follow."""
    values = parse_yaml(read_text(path), origin=str(path))
    output = _only(values, "outs", path)
    name, algorithm = output.get("path"), output.get("hash")
    if not isinstance(name, str) or "/" in name or name.startswith(".") or unsafe(name):
        raise InputError(f"{path}: outs.path is {name!a:.120}, wanted a name beside the pointer", remedy=_ADD_ANEW)
    for key, wanted in (("wdir", "."), ("cmd", None)):
        if values.get(key, wanted) != wanted:
            raise InputError(f"{path}: '{key}' is set, wanted a plain pointer", remedy=_ADD_ANEW)
    if "files" in output:
        raise InputError(f"{path}: lists versions of a cloud's objects, not an md5", remedy=_ADD_ANEW)
    if algorithm != "md5":
        raise InputError(
            f"{path}: outs.hash is {algorithm!a:.40}, wanted md5: this is no pointer of DVC 3",
            remedy="dvc cache migrate --dvc-files",
        )
    imported = _only(values, "deps", path) if "deps" in values else {}
    if imported and not (isinstance(imported.get("path"), str) and _IMPORTED_FROM.fullmatch(imported["path"])):
        raise InputError(
            f"{path}: imported from {imported.get('path')!a:.120}, wanted remote://NAME/PREFIX or s3://BUCKET/PREFIX",
            remedy=_ADD_ANEW,
        )
    pinned = output.get("md5")
    by_tags = pinned is None
    if by_tags:
        pinned = imported.get("md5", imported.get("etag"))
    digest = _digest(values, path)
    left_out = pinned is None and digest is not None
    if not left_out and not (isinstance(pinned, str) and (by_tags or _MD5.fullmatch(pinned))):
        raise InputError(f"{path}: found {pinned!a:.80} where an md5 is wanted", remedy=_ADD_ANEW)
    size = output.get("size", imported.get("size"))
    size_bytes = size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None
    return Pointer(path=path, output=name, md5=pinned, by_tags=by_tags, size_bytes=size_bytes, tree_digest=digest)


def _digest(values: Mapping[str, Any], path: Path) -> str | None:
    """`meta.modelctl.tree_digest`; None in a pointer that modelctl did not write."""
    meta = values.get("meta")
    ours = meta.get("modelctl") if isinstance(meta, dict) else None
    if ours is None:
        return None
    digest = ours.get("tree_digest") if isinstance(ours, dict) else None
    if not isinstance(digest, str) or not _TREE_DIGEST.fullmatch(digest):
        raise InputError(
            f"{path}: found {digest!a:.80} at meta.modelctl.tree_digest, wanted sha256:HEX", remedy=f"git log -- {path}"
        )
    return digest


def _only(values: Any, key: str, path: Path) -> dict[str, Any]:
    items = values.get(key) if isinstance(values, dict) else None
    if not isinstance(items, list) or len(items) != 1 or not isinstance(items[0], dict):
        found = f"{len(items)} entries" if isinstance(items, list) else "none"
        raise InputError(f"{path}: found {found} under '{key}', wanted exactly one: is it a DVC pointer?")
    return items[0]


def verify(pointer: Pointer, output: Path, advance: Callable[[float], None] = lambda _: None) -> None:
    """Hash the file or folder that DVC brought and hold it against the pointer.

    Raises `RefusedError` when the bytes are others, `CannotDecideError` when the pointer only names ETags that are no
    md5s of bytes, `OSError`.
    """
    if pointer.is_folder != output.is_dir() or output.is_symlink():
        raise RefusedError(
            f"{pointer.path}: points at a {'folder' if pointer.is_folder else 'file'}, DVC brought something else",
            remedy="dvc pull it yourself and look at it",
        )
    if pointer.tree_digest is not None:
        found = scan_tree(output).digest
        if found != pointer.tree_digest:
            raise RefusedError(
                f"{pointer.path}: the bytes are {found}, the pointer names {pointer.tree_digest}",
                remedy="the object store's copy was changed: modelctl verify names the files",
            )
        return
    files = _md5s(output, advance) if output.is_dir() else {"": _md5(output, advance)}
    found = folder_md5(files, tags=pointer.by_tags) if output.is_dir() else files[""]
    if found == pointer.md5:
        return
    if pointer.by_tags:
        raise CannotDecideError(
            f"{pointer.path}: names ETags of the server and no md5 of the bytes; md5 {found} does not equal them: "
            "other bytes, or objects that were sent in parts",
            remedy=f"dvc update {pointer.path.name}: it reads the bytes and names their md5",
        )
    raise RefusedError(
        f"{pointer.path}: the bytes have md5 {found}, the pointer names {pointer.md5}",
        remedy="the remote's or the cache's copy was changed: dvc push it again from a copy that is right",
    )


def folder_md5(files: Mapping[str, str], *, tags: bool = False) -> str:
    """What DVC calls a folder: md5 over the JSON list of (md5, path), with `.dir` behind it; with `tags` of ETags."""
    key = "etag" if tags else "md5"
    entries = [{key: files[path], "relpath": path} for path in sorted(files)]
    return hashlib.md5(json.dumps(entries, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + ".dir"


def _md5s(folder: Path, advance: Callable[[float], None]) -> dict[str, str]:
    paths = {
        Path(parent, name).relative_to(folder).as_posix(): Path(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
    }
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(paths, pool.map(lambda path: _md5(path, advance), paths.values()), strict=True))


def _md5(path: Path, advance: Callable[[float], None]) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
            advance(len(block))
    return digest.hexdigest()
