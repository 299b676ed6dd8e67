"""Indexes against the files they name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from modelctl.model.safetensors import read_header
from modelctl.model.shards import check_indexes
from modelctl.model.tree import scan_tree
from tests.support.models import llama_tensors, tiny_llama, write_json, write_safetensors

INDEX = "model.safetensors.index.json"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_llama(tmp_path / "model", shards=2)


def kinds(folder: Path) -> set[str]:
    tree = scan_tree(folder)
    headers = {e.path: read_header(tree.location(e.path)) for e in tree.files if e.path.endswith(".safetensors")}
    return {problem.kind for problem in check_indexes(tree, headers)}


def edit(folder: Path, change: Callable[[dict[str, str]], object]) -> None:
    index = json.loads((folder / INDEX).read_text())
    change(index["weight_map"])
    write_json(folder / INDEX, index)


def test_a_whole_index_has_no_problem(folder: Path) -> None:
    assert kinds(folder) == set()


def test_a_missing_part(folder: Path) -> None:
    (folder / SECOND).unlink()
    assert kinds(folder) == {"missing-shard"}


@pytest.mark.parametrize(
    "name", ["../other/model.safetensors", "/etc/model.safetensors", "..\\x.safetensors", "a/../../b"]
)
def test_a_path_out_of_the_folder(folder: Path, name: str) -> None:
    edit(folder, lambda shards: shards.update({"model.norm.weight": name}))
    assert "path-traversal" in kinds(folder)


def test_tensors_swapped_between_parts(folder: Path) -> None:
    def swap(shards: dict[str, str]) -> None:
        for name, shard in shards.items():
            shards[name] = SECOND if shard == FIRST else FIRST

    edit(folder, swap)
    assert kinds(folder) == {"wrong-shard"}


def test_a_tensor_that_no_part_holds(folder: Path) -> None:
    edit(folder, lambda shards: shards.update({"model.extra.weight": FIRST}))
    assert kinds(folder) == {"missing-tensor"}


def test_a_tensor_that_the_index_does_not_name(folder: Path) -> None:
    edit(folder, lambda shards: shards.pop("model.norm.weight"))
    assert kinds(folder) == {"unmapped-tensor"}


def test_a_tensor_in_two_parts(folder: Path) -> None:
    tensors = llama_tensors(
        vocab=320, layers=2, hidden=64, heads=4, kv_heads=2, intermediate=128, tie=True, seed=0
    )  # fmt: skip
    write_safetensors(folder / FIRST, tensors)
    assert "duplicate-tensor" in kinds(folder)


def test_a_part_that_the_index_does_not_name(folder: Path) -> None:
    shutil.copy(folder / FIRST, folder / "model-00003-of-00003.safetensors")
    assert kinds(folder) == {"extra-shard"}


def test_parts_and_a_whole_file_together_are_ambiguous(folder: Path) -> None:
    shutil.copy(folder / FIRST, folder / "model.safetensors")
    assert kinds(folder) == {"ambiguous"}


def test_parts_without_an_index(folder: Path) -> None:
    (folder / INDEX).unlink()
    assert kinds(folder) == {"missing-index"}


def test_another_format_of_the_same_weights_beside_them_is_fine(folder: Path) -> None:
    shutil.copy(folder / FIRST, folder / "consolidated.safetensors")
    assert kinds(folder) == set()


@pytest.mark.parametrize(
    "index", [{}, {"weight_map": {}}, {"weight_map": []}, {"weight_map": {"a": 1}}, {"weight_map": {"a": None}}]
)
def test_a_malformed_index(folder: Path, index: object) -> None:
    write_json(folder / INDEX, index)
    assert kinds(folder) == {"malformed"}
