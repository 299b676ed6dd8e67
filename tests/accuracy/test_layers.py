"""The recipe is held against the model before any work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from modelctl.accuracy.layers import check_specification, linear_layers
from modelctl.errors import InputError
from modelctl.model.release import Quantization
from modelctl.model.tree import scan_tree
from tests.support.models import tiny_llama


def test_the_layers_are_the_matrices_of_the_blocks(tmp_path: Path) -> None:
    layers = linear_layers(scan_tree(tiny_llama(tmp_path / "model", layers=2)))
    assert len(layers) == 14
    assert {layer.name.rpartition(".")[2] for layer in layers} == {
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    }  # fmt: skip
    assert {layer.in_features for layer in layers if layer.name.endswith("down_proj")} == {128}


def test_a_group_size_that_does_not_divide_names_layer_sizes_and_what_fits(tmp_path: Path) -> None:
    tree = scan_tree(tiny_llama(tmp_path / "model", hidden=64))
    with pytest.raises(InputError) as caught:
        check_specification(tree, Quantization(group_size=128))
    assert re.search(r"group_size: 128 does not divide the 64 inputs of model\.layers\.0\.", caught.value.message)
    assert caught.value.remedy == "write group_size: 16 or 32 or 64"


def test_excluded_layers_may_have_any_size(tmp_path: Path) -> None:
    tree = scan_tree(tiny_llama(tmp_path / "model", hidden=64))
    chosen = check_specification(tree, Quantization(group_size=128, exclude=("self_attn", "gate_proj|up_proj")))
    assert [layer.name for layer in chosen] == ["model.layers.0.mlp.down_proj", "model.layers.1.mlp.down_proj"]


def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    tree = scan_tree(tiny_llama(tmp_path / "model"))
    with pytest.raises(InputError, match="'self_atn' matches none of the 14 layers"):
        check_specification(tree, Quantization(group_size=32, exclude=("self_atn",)))


def test_a_recipe_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    tree = scan_tree(tiny_llama(tmp_path / "model"))
    with pytest.raises(InputError, match="leaves no layer"):
        check_specification(tree, Quantization(group_size=32, exclude=("proj",)))


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no layers to quantise"):
        check_specification(scan_tree(folder), Quantization(group_size=32))


def test_broken_weights_are_named(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "model")
    with (folder / "model.safetensors").open("ab") as stream:
        stream.write(b"tail")
    with pytest.raises(InputError, match=r"model\.safetensors: 4 bytes after the last tensor"):
        check_specification(scan_tree(folder), Quantization(group_size=32))
