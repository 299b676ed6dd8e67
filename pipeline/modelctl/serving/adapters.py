"""A LoRA adapter and the base that an engine serves it on: whether they belong together, and the rank to allow for.

Read from files alone, before an engine is started: engines pass over modules that they do not know, and what is passed
over is not served.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from modelctl.errors import CannotDecideError
from modelctl.model.adapter import Pair, adapter_ranks, lora_pairs
from modelctl.model.kinds import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from modelctl.model.safetensors import TensorInfo, read_header
from modelctl.model.strict_json import Json, read_object
from modelctl.model.tree import Tree

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes for `--max-lora-rank` (its `LoRAConfig`, 0.32)."""
_PREFIX = "base_model.model."
"""What PEFT puts before a module's name in the base."""
_PACKED = ("qweight", "weight_packed")
"""A module whose weight is packed is there, of a shape that says nothing here."""
_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class ServedAdapter:
    """An adapter and its base."""

    base: Tree
    tree: Tree
    folder: Path
    """The adapter's own, in `tree`."""
    rank: int
    named_base: str | None
    """What adapter_config.json calls its base."""

    @property
    def max_rank(self) -> int:
        """The least rank that the engine can be told to allow for."""
        return next(rank for rank in RANKS if rank >= self.rank)

    def misfits(self) -> tuple[str, ...]:
        """Where the adapter does not fit its base, in words; empty: it fits. Raises `CannotDecideError`."""
        header = read_header(self.folder / ADAPTER_WEIGHTS[0])
        return tuple(_misfits(lora_pairs(header), _weights(self.base)))


def served_adapter(tree: Tree, base: Tree) -> ServedAdapter:
    """The one adapter of a tree, on a base. Raises `CannotDecideError` when it can't be served by itself, and
    `InputError` when its config can't be read."""
    configs = list(tree.named(ADAPTER_CONFIG))
    if len(configs) != 1:
        raise CannotDecideError(
            f"the source holds {len(configs)} adapters; one is served at a time", remedy="make a release of each"
        )
    path = configs[0].path
    folder = path.removesuffix(ADAPTER_CONFIG)
    if folder + ADAPTER_WEIGHTS[0] not in tree.by_path:
        raise CannotDecideError(f"no {folder}{ADAPTER_WEIGHTS[0]}", remedy="keep the adapter in safetensors")
    config = read_object(tree.location(path), origin=path, max_bytes=1 << 20)
    ranks = adapter_ranks(config)
    if not ranks or not 1 <= max(ranks) <= RANKS[-1]:
        raise CannotDecideError(
            f"{path}: rank {max(ranks, default=None)}; an engine serves ranks from 1 to {RANKS[-1]}",
            remedy="mend 'r' in it, or train an adapter of a smaller rank",
        )
    return ServedAdapter(
        base=base, tree=tree, folder=tree.root / folder, rank=max(ranks), named_base=_named_base(config)
    )


def _named_base(config: Mapping[str, Json]) -> str | None:
    name = config.get("base_model_name_or_path")
    return name if isinstance(name, str) and name else None


def _weights(base: Tree) -> dict[str, TensorInfo]:
    """The base's tensors by name. Raises `CannotDecideError` for a file whose header can't be read."""
    paths = [entry.path for entry in base.files if entry.path.endswith(".safetensors") and "/" not in entry.path]
    if not paths:
        raise CannotDecideError("the base holds no safetensors", remedy="name a base with weights in safetensors")
    found: dict[str, TensorInfo] = {}
    for path in paths:
        header = read_header(base.location(path))
        if header.problems:
            raise CannotDecideError(
                f"the base's {path}: {header.problems[0].detail}", remedy="admit the base: integrity says more"
            )
        found |= {tensor.name: tensor for tensor in header.tensors}
    return found


def _misfits(pairs: Mapping[str, Pair], weights: Mapping[str, TensorInfo]) -> Iterator[str]:
    """W + B·A: A is rank × inputs, B is outputs × rank, W outputs × inputs (in GPT-2's Conv1D the other way round)."""
    for module, pair in pairs.items():
        name = module.removeprefix(_PREFIX)
        if f"{name}.weight" not in weights:
            if not any(f"{name}.{packed}" in weights for packed in _PACKED):
                yield f"the base has no {name[:120]!a}"
            continue
        if pair.a is None or pair.b is None or len(pair.a.shape) != 2 or len(pair.b.shape) != 2:
            continue  # integrity says so
        shape = weights[f"{name}.weight"].shape
        change = (pair.b.shape[0], pair.a.shape[1])
        if tuple(shape) not in (change, change[::-1]):
            yield f"{name[:120]!a} is {list(shape)} in the base, and the adapter changes {list(change)}"


def shown(misfits: tuple[str, ...]) -> str:
    """The first few, and how many more."""
    words = "; ".join(misfits[:_SHOWN])
    return words if len(misfits) <= _SHOWN else f"{words}; and {len(misfits) - _SHOWN} more"
