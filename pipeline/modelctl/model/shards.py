"""Weights in several safetensors files: the index must name every tensor once, in the file that really holds it.

Engines trust the index to different degrees (some load every file in the folder, some only the named ones), so any
disagreement means that two programs may run two different models.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from modelctl.errors import InputError
from modelctl.model.safetensors import Header
from modelctl.model.strict_json import Json, read_object
from modelctl.model.tree import Tree

INDEX_SUFFIX = ".safetensors.index.json"
_NUMBERED = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.safetensors$")


@dataclass(frozen=True, kw_only=True)
class IndexProblem:
    """One disagreement between an index and the files."""

    path: str
    kind: str
    """One of: malformed, path-traversal, missing-shard, missing-tensor, wrong-shard, duplicate-tensor, unmapped-tensor,
    extra-shard, ambiguous, missing-index."""
    detail: str


def check_indexes(tree: Tree, headers: Mapping[str, Header]) -> Iterator[IndexProblem]:
    """Every problem of every index in the tree. `headers` holds the header of each safetensors file, by path."""
    indexes = [entry.path for entry in tree.files if entry.path.endswith(INDEX_SUFFIX)]
    for path in indexes:
        try:
            weight_map = _weight_map(read_object(tree.location(path), origin=path), path)
        except InputError as error:
            yield IndexProblem(path=path, kind="malformed", detail=error.message)
            continue
        yield from _check(path, weight_map, headers)
    indexed = {path.removesuffix(INDEX_SUFFIX) for path in indexes}
    for path in headers:
        numbered = _NUMBERED.match(path)
        if numbered and numbered["stem"] not in indexed and int(numbered["count"]) > 1:
            detail = f"one of {int(numbered['count'])} parts, and there is no {numbered['stem']}{INDEX_SUFFIX}"
            yield IndexProblem(path=path, kind="missing-index", detail=detail)


def _weight_map(index: Mapping[str, Json], path: str) -> dict[str, str]:
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, Mapping) or not weight_map:
        raise InputError(f"{path}: 'weight_map' must be an object that names a file for each tensor")
    shards = {name: shard for name, shard in weight_map.items() if isinstance(shard, str)}
    if len(shards) != len(weight_map):
        raise InputError(f"{path}: 'weight_map' has values that are no file names")
    return shards


def _check(path: str, weight_map: Mapping[str, str], headers: Mapping[str, Header]) -> Iterator[IndexProblem]:
    folder = posixpath.dirname(path)
    by_shard: defaultdict[str, set[str]] = defaultdict(set)
    for tensor, shard in weight_map.items():
        by_shard[shard].add(tensor)
    holders: defaultdict[str, list[str]] = defaultdict(list)
    present: dict[str, str] = {}
    for shard in sorted(by_shard):
        location = posixpath.normpath(posixpath.join(folder, shard))
        if "\\" in shard or posixpath.isabs(shard) or ".." in shard.split("/"):
            detail = f"names {shard[:120]!a}, a path out of the index's own folder"
            yield IndexProblem(path=path, kind="path-traversal", detail=detail)
        elif location not in headers:
            detail = f"{shard[:120]} is not there; {len(by_shard[shard])} tensors are mapped to it"
            yield IndexProblem(path=path, kind="missing-shard", detail=detail)
        else:
            present[shard] = location
            for info in headers[location].tensors:
                holders[info.name].append(shard)
    yield from _placement(path, weight_map, present, holders)
    yield from _neighbours(path, folder, set(present.values()), headers)


def _placement(
    path: str, weight_map: Mapping[str, str], present: Mapping[str, str], holders: Mapping[str, list[str]]
) -> Iterator[IndexProblem]:
    for tensor, shard in weight_map.items():
        held = holders.get(tensor, [])
        if shard in present and shard not in held:
            kind = "wrong-shard" if held else "missing-tensor"
            where = f"{held[0]} holds it" if held else "no file holds it"
            yield IndexProblem(path=path, kind=kind, detail=f"{tensor[:120]!a} is mapped to {shard}, but {where}")
    for tensor, held in holders.items():
        if len(held) > 1:
            detail = f"{tensor[:120]!a} is in {len(held)} files: {', '.join(held[:4])}"
            yield IndexProblem(path=path, kind="duplicate-tensor", detail=detail)
        if tensor not in weight_map:
            detail = f"{tensor[:120]!a} in {held[0]} is not in the index"
            yield IndexProblem(path=path, kind="unmapped-tensor", detail=detail)


def _neighbours(path: str, folder: str, shards: set[str], headers: Mapping[str, Header]) -> Iterator[IndexProblem]:
    stem = path.removesuffix(INDEX_SUFFIX)
    for other in headers:
        if other in shards or posixpath.dirname(other) != folder:
            continue
        numbered = _NUMBERED.match(other)
        if numbered and numbered["stem"] == stem:
            yield IndexProblem(path=path, kind="extra-shard", detail=f"{other} lies beside it and is not named")
        elif other == stem + ".safetensors":
            detail = f"{other} lies beside it: some programs load that file, others the parts"
            yield IndexProblem(path=path, kind="ambiguous", detail=detail)
