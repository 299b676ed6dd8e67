"""What a quantisation would touch, from the safetensors headers alone: refused before any work when it cannot be done.

gptqmodel saves a group size that does not divide a layer's inputs without a word, and engines fail on it later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from modelctl.errors import InputError
from modelctl.model.config import load_config
from modelctl.model.release import Quantization
from modelctl.model.safetensors import TensorInfo, read_header
from modelctl.model.tree import Tree

GROUP_SIZES: tuple[int, ...] = get_args(Quantization.model_fields["group_size"].annotation)
_IN_A_LAYER = re.compile(r"\.\d+\..*\.weight$")
_TRANSPOSED = ("gpt2", "openai-gpt")
"""Families that store a matrix with its inputs as rows."""


@dataclass(frozen=True, kw_only=True)
class LinearLayer:
    """One matrix inside the repeated blocks of a model: its module's name, how many inputs it has, how many outputs."""

    name: str
    in_features: int
    out_features: int


def stored_tensors(tree: Tree) -> Iterator[TensorInfo]:
    """Every tensor of the safetensors files at the root. Raises `InputError` for a file that is no such file."""
    for entry in tree.files:
        if "/" in entry.path or not entry.path.endswith(".safetensors"):
            continue
        header = read_header(tree.location(entry.path))
        if header.problems:
            raise InputError(
                f"{entry.path}: {header.problems[0].detail}",
                remedy="restore the file from its upstream, then try again",
            )
        yield from header.tensors


def linear_layers(tree: Tree) -> tuple[LinearLayer, ...]:
    """The matrices of the repeated blocks, by name. Raises `InputError` for a broken file, or without config.json."""
    transposed = load_config(tree).model_type in _TRANSPOSED
    found = []
    for tensor in stored_tensors(tree):
        if len(tensor.shape) == 2 and _IN_A_LAYER.search(tensor.name):
            rows, columns = reversed(tensor.shape) if transposed else tensor.shape
            name = tensor.name.removesuffix(".weight")
            found.append(LinearLayer(name=name, in_features=columns, out_features=rows))
    return tuple(sorted(found, key=lambda layer: layer.name))


def check_specification(tree: Tree, spec: Quantization) -> tuple[LinearLayer, ...]:
    """The layers that `spec` quantises in this model.

    Raises `InputError` when there is none, when a pattern of `exclude` matches nothing, or when the group size does not
    divide a layer's inputs; it names the layer, the sizes and the group sizes that fit.
    """
    layers = linear_layers(tree)
    if not layers:
        raise InputError(
            f"{tree.root}: no layers to quantise in its safetensors files",
            remedy="name a folder with the weights in *.safetensors beside config.json",
        )
    for pattern in spec.exclude:
        if not any(re.search(pattern, layer.name) for layer in layers):
            raise InputError(
                f"quantization.exclude: '{pattern}' matches none of the {len(layers)} layers, such as {layers[0].name}",
                remedy="write a regular expression of module names, for example self_attn or down_proj",
            )
    chosen = tuple(layer for layer in layers if not any(re.search(pattern, layer.name) for pattern in spec.exclude))
    if not chosen:
        raise InputError("quantization.exclude leaves no layer to quantise", remedy="take a pattern away")
    wrong = [layer for layer in chosen if layer.in_features % spec.group_size]
    if wrong:
        fitting = [size for size in GROUP_SIZES if all(layer.in_features % size == 0 for layer in chosen)]
        words = " or ".join(str(size) for size in fitting)
        raise InputError(
            f"quantization.group_size: {spec.group_size} does not divide the {wrong[0].in_features} inputs of "
            f"{wrong[0].name}" + (f" (and of {len(wrong) - 1} more layers)" if len(wrong) > 1 else ""),
            remedy=f"write group_size: {words}" if fitting else "exclude that layer: no group size fits all layers",
        )
    return chosen
