"""Put a served tree together from what gptqmodel wrote and from the source, and hold it against the plan.

The child has loaded a hostile model: what it wrote is taken for weights and recipe only, its other files are dropped,
and every check of the served tree follows. Tokenizer files are the source's, byte for byte.
"""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from modelctl.accuracy.layers import linear_layers
from modelctl.accuracy.leaks import leaks
from modelctl.accuracy.plan import Plan
from modelctl.accuracy.precision import working_dtype
from modelctl.errors import CannotDecideError
from modelctl.model.config import CONFIG_NAME, ModelConfig
from modelctl.model.safetensors import read_header
from modelctl.model.strict_json import Json, read_object
from modelctl.model.tree import Tree

KEPT = (
    "tokenizer*.json", "tokenizer*.model", "spiece.model", "spm.model", "sentencepiece.bpe.model", "tiktoken.model",
    "*.tiktoken", "tekken.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt",
    "merges.txt", "chat_template*", "chat_templates/*", "generation_config.json", "LICENSE*", "NOTICE*",
)  # fmt: skip
"""Files of the source that an engine reads beside config and weights, and what its licence asks to pass on."""

_LOCAL_META = ("offload_to_disk", "offload_to_disk_path")


def assemble(source: Tree, config: ModelConfig, output: Path, ready: Path) -> list[Path]:
    """Fill `ready` from the child's `output` and the source; returns the weight files, index included."""
    weights = [path for path in output.iterdir() if path.name.endswith((".safetensors", ".safetensors.index.json"))]
    if not any(path.suffix == ".safetensors" for path in weights):
        raise CannotDecideError(
            "gptqmodel wrote no weights", remedy="run the same command again; report it if it persists"
        )
    for path in weights:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise CannotDecideError(f"gptqmodel's output {path.name} is no plain file")
        path.chmod(0o644)
        path.rename(ready / path.name)
    for entry in source.files:
        if any(fnmatchcase(entry.path, pattern) for pattern in KEPT):
            target = ready / entry.path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.location(entry.path), target)
    written = read_object(output / CONFIG_NAME, origin="gptqmodel's config.json")
    recipe = written.get("quantization_config")
    if not isinstance(recipe, Mapping):
        raise CannotDecideError("gptqmodel wrote no quantization_config into config.json")
    served = {**config.raw, "quantization_config": _portable(recipe)}
    for name in {"dtype", "torch_dtype"} & served.keys() or {"dtype"}:
        served[name] = working_dtype(config)
    (ready / CONFIG_NAME).write_text(json.dumps(served, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return [ready / path.name for path in weights]


def _portable(recipe: Mapping[str, Json]) -> dict[str, Json]:
    """The recipe without what only says where it was made."""
    meta = recipe.get("meta")
    if not isinstance(meta, Mapping):
        return dict(recipe)
    return {**recipe, "meta": {name: value for name, value in meta.items() if name not in _LOCAL_META}}


def hold_against_plan(wanted: Plan, weights: Sequence[Path]) -> tuple[str, ...]:
    """The matrices that were to be quantised and were not. Raises `CannotDecideError` for one that was to be left."""
    packed = {
        tensor.name.removesuffix(".qweight")
        for path in weights
        if path.suffix == ".safetensors"
        for tensor in read_header(path).tensors
        if tensor.name.endswith(".qweight")
    }
    chosen = {layer.name for layer in wanted.chosen}
    excluded = {layer.name for layer in linear_layers(wanted.source)} - chosen
    if packed & excluded:
        raise CannotDecideError(f"gptqmodel quantised {min(packed & excluded)}, which quantization.exclude names")
    return tuple(sorted(chosen - packed))


def refuse_leaks(wanted: Plan, files: Sequence[Path], made_in: Sequence[Path]) -> None:
    """Raise `CannotDecideError` when the files name a folder of this machine or quote the calibration text."""
    paths = [wanted.source.root, *made_in, Path.home()]
    found = leaks(files, paths=paths, texts=wanted.text.parts)
    if found:
        raise CannotDecideError(
            "the quantised model carries what it must not: " + "; ".join(found),
            remedy="report it as a bug of modelctl: gptqmodel writes something new",
        )
