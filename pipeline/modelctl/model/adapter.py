"""A LoRA adapter's tensors against its adapter_config.json: whole pairs, ranks that fit, modules that are named.

A pair replaces W by W + B·A with A of rank × inputs and B of outputs × rank, as PEFT stores it
(`<module>.lora_A.weight`, `<module>.lora_B.weight`; `lora_embedding_A`, `lora_embedding_B` without `.weight`). The
inputs and outputs are those of the base model, which is not here. Patterns in a config are never run: a rank is right
when it is any that the config names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from modelctl.errors import InputError
from modelctl.model.kinds import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from modelctl.model.safetensors import Header, TensorInfo
from modelctl.model.strict_json import Json, read_object
from modelctl.model.tree import Tree
from modelctl.model.weights import WeightProblem

_HALF = re.compile(r"(.+)\.lora_(embedding_)?([AB])(?:\.[^.]+)?(?:\.weight)?")
_EXTRAS = re.compile(r"lora_magnitude_vector|modules_to_save|(embed_tokens|wte|lm_head)\.weight$|\.bias$")
"""DoRA's magnitudes, modules that were trained whole, and biases where the config has them trained."""


@dataclass(kw_only=True)
class Pair:
    """Both halves of one module's change; None: missing."""

    a: TensorInfo | None = None
    b: TensorInfo | None = None


@dataclass(kw_only=True)
class _Halves:
    pairs: dict[str, Pair] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def check_adapters(tree: Tree, headers: Mapping[str, Header]) -> Iterator[WeightProblem]:
    """Every disagreement of every adapter of the tree. A config that can't be read is a problem of kind `config`."""
    for entry in tree.named(ADAPTER_CONFIG):
        path = entry.path.removesuffix(ADAPTER_CONFIG) + ADAPTER_WEIGHTS[0]
        try:
            config = read_object(tree.location(entry.path), origin=entry.path, max_bytes=1 << 20)
        except InputError as error:
            yield WeightProblem(path=entry.path, kind="config", detail=error.message)
            continue
        if config.get("peft_type") == "LORA" and path in headers:
            yield from _adapter(config, headers[path], path)


def lora_pairs(header: Header) -> Mapping[str, Pair]:
    """The pairs of an adapter's file, by module."""
    return _sorted(header).pairs


def _adapter(config: Mapping[str, Json], header: Header, path: str) -> Iterator[WeightProblem]:
    halves = _sorted(header)
    ranks = adapter_ranks(config)
    if not halves.pairs and not header.problems:
        yield WeightProblem(path=path, kind="tensor-missing", detail="holds no LoRA pair")
    targets = config.get("target_modules")
    named = tuple(item for item in targets if isinstance(item, str)) if isinstance(targets, list) else ()
    for module, pair in halves.pairs.items():
        where = ascii(module[:120])
        if pair.a is None or pair.b is None:
            lost = "A" if pair.a is None else "B"
            yield WeightProblem(path=path, kind="tensor-missing", detail=f"{where} has no lora_{lost}")
            continue
        shapes = f"A is {list(pair.a.shape)}, B is {list(pair.b.shape)}"
        if len(pair.a.shape) < 2 or len(pair.b.shape) < 2 or pair.a.shape[0] != pair.b.shape[1]:
            detail = f"{where}: {shapes}; the rows of A and the columns of B are the rank"
            yield WeightProblem(path=path, kind="tensor-shape", detail=detail)
        elif ranks and pair.a.shape[0] not in ranks:
            wanted = ", ".join(map(str, sorted(ranks)[:8]))
            detail = f"{where}: {shapes}, of rank {pair.a.shape[0]}; {ADAPTER_CONFIG} has {wanted}"
            yield WeightProblem(path=path, kind="tensor-shape", detail=detail)
        if named and not any(module == name or module.endswith("." + name) for name in named):
            detail = f"{where} is none of target_modules ({', '.join(named)[:120]!a})"
            yield WeightProblem(path=path, kind="tensor-extra", detail=detail)
    for name in halves.others:
        yield WeightProblem(path=path, kind="tensor-extra", detail=f"{name[:120]!a} is no part of a LoRA adapter")


def _sorted(header: Header) -> _Halves:
    found = _Halves()
    for tensor in header.tensors:
        half = _HALF.fullmatch(tensor.name)
        if half is None:
            if not _EXTRAS.search(tensor.name):
                found.others.append(tensor.name)
        else:
            pair = found.pairs.setdefault(half[1], Pair())
            if half[3] == "A":
                pair.a = tensor
            else:
                pair.b = tensor
    return found


def adapter_ranks(config: Mapping[str, Json]) -> frozenset[int]:
    """Every rank that an adapter_config.json names."""
    patterns = config.get("rank_pattern")
    values = [config.get("r"), *(patterns.values() if isinstance(patterns, Mapping) else ())]
    return frozenset(value for value in values if isinstance(value, int) and not isinstance(value, bool))
