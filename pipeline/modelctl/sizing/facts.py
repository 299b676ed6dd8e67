"""What sizing needs to know of a model: its config.json and the bytes of the weights that an engine loads.

Bytes come from the tensors of safetensors headers, or, for a repository of the Hub, from the sizes that the Hub lists,
so that nothing but config.json and the index is fetched. Parameter counts are not used: packed weights and mixtures
break them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from modelctl.errors import CannotDecideError, InputError
from modelctl.model.config import CONFIG_NAME, ModelConfig, parse_config, read_config
from modelctl.model.hub import Hub
from modelctl.model.hub_peek import read_small
from modelctl.model.listing import Upstream
from modelctl.model.safetensors import read_header
from modelctl.model.strict_json import Json, parse_object, read_object

WEIGHTS = ".safetensors"
INDEX_NAME = "model.safetensors.index.json"
_OTHER_FORMATS = (".bin", ".gguf", ".pt", ".pth")


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """A model as sizing sees it."""

    name: str
    config: ModelConfig
    weight_bytes: int
    measured: str
    """Where the bytes come from, in words."""
    dtype_bytes: Mapping[str, int] = field(default_factory=dict)
    """Stored bytes by data type; empty when only sizes of files are known."""


def facts_of_folder(folder: Path, *, name: str) -> ModelFacts:
    """Facts of a model's folder; headers are read, weights are not. Where only config.json and the index are there, the
    index is believed. Raises `InputError`, `CannotDecideError`."""
    config = config_of_folder(folder, name=name)
    present = sorted(path.name for path in folder.iterdir() if path.is_file())
    index = read_object(folder / INDEX_NAME, origin=INDEX_NAME) if INDEX_NAME in present else None
    total = _stated_bytes(index)
    if total is not None and not any(path.endswith((WEIGHTS, *_OTHER_FORMATS)) for path in present):
        return ModelFacts(
            name=name, config=config, weight_bytes=total, measured="total_size of the index; no weights are here"
        )
    files = _loaded(present, index, name)
    dtypes: Counter[str] = Counter()
    for file in files:
        header = read_header(folder / file)
        if header.problems:
            raise InputError(
                f"{name}: {file}: {header.problems[0].detail}",
                remedy=f"modelctl admit {name} --check integrity says more",
            )
        for tensor in header.tensors:
            dtypes[tensor.dtype] += tensor.size_bytes
    return ModelFacts(
        name=name, config=config, weight_bytes=dtypes.total(), dtype_bytes=dict(dtypes.most_common()),
        measured=f"tensors of {len(files)} safetensors file{'s' if len(files) > 1 else ''}",
    )  # fmt: skip


def config_of_folder(folder: Path, *, name: str) -> ModelConfig:
    """The config.json of a model's folder. Raises `InputError`."""
    if not (folder / CONFIG_NAME).is_file():
        raise InputError(
            f"{name}: no {CONFIG_NAME}", remedy=f"name the folder that holds {CONFIG_NAME} and the weights"
        )
    return read_config(folder / CONFIG_NAME)


def config_of_hub(hub: Hub, upstream: Upstream) -> ModelConfig:
    """The config.json of a repository of the Hub at one commit. Raises `InputError`, `RefusedError`."""
    if CONFIG_NAME not in upstream.files:
        raise InputError(
            f"{_name(upstream)}: no {CONFIG_NAME}", remedy="name a repository of a model that an engine can serve"
        )
    return parse_config(parse_object(read_small(hub, upstream, CONFIG_NAME), origin=CONFIG_NAME))


def facts_of_hub(hub: Hub, upstream: Upstream) -> ModelFacts:
    """Facts of a repository of the Hub at one commit, from its listing, config.json and index alone.

    Raises `InputError`, `CannotDecideError`, `RefusedError`.
    """
    name = _name(upstream)
    config = config_of_hub(hub, upstream)
    root = [path for path in upstream.files if "/" not in path]
    index = (
        parse_object(read_small(hub, upstream, INDEX_NAME), origin=INDEX_NAME) if INDEX_NAME in upstream.files else None
    )
    files = _loaded(root, index, name)
    return ModelFacts(
        name=name,
        config=config,
        weight_bytes=sum(upstream.files[file].size_bytes for file in files),
        measured=f"listed sizes of {len(files)} safetensors file{'s' if len(files) > 1 else ''}, headers included",
    )


def _stated_bytes(index: Mapping[str, Json] | None) -> int | None:
    """What an index says of the bytes of all tensors."""
    metadata = (index or {}).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    return total if isinstance(total, int) and not isinstance(total, bool) and total > 0 else None


def _name(upstream: Upstream) -> str:
    return f"{upstream.repo_id}@{upstream.commit[:12]}"


def _loaded(present: Collection[str], index: Mapping[str, Json] | None, name: str) -> list[str]:
    """The weight files that an engine loads: those of the index, else all at the root but a second copy."""
    if index is not None:
        weight_map = index.get("weight_map")
        wanted = sorted({str(shard) for shard in weight_map.values()}) if isinstance(weight_map, Mapping) else []
        missing = [shard for shard in wanted if shard not in present]
        if missing or not wanted:
            raise InputError(
                f"{name}: {INDEX_NAME} names {missing[0]!a:.80} and it is not there"
                if missing
                else f"{name}: {INDEX_NAME} names no files",
                remedy=f"modelctl admit {name} --check integrity says more",
            )
        return wanted
    found = [path for path in present if path.endswith(WEIGHTS) and not path.startswith("consolidated")]
    if found:
        return found
    others = [path for path in present if path.endswith(_OTHER_FORMATS)]
    if others:
        raise CannotDecideError(
            f"{name}: the weights are in {others[0]}; sizing knows safetensors only",
            remedy="convert the weights to safetensors, or size the repository that they were made from",
        )
    raise InputError(f"{name}: no {WEIGHTS} file", remedy="name the folder that holds config.json and the weights")
