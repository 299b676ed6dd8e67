"""Make the served tree of a release: the source's weights quantised by gptqmodel in an isolated child, everything
else byte for byte.

The result lies in `staging/<tree digest>` once it is complete, never half-written. It is remembered by the digest of
all that moves it (source, recipe, calibration text, library versions) and hashed again before it is reused.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from modelctl import worker
from modelctl.accuracy.layers import check_specification
from modelctl.accuracy.tools import QUANTISING, has_gpu, versions, worker_environment
from modelctl.errors import CannotDecideError, InputError
from modelctl.isolation import Sandbox
from modelctl.model.config import CONFIG_NAME, ModelConfig, load_config
from modelctl.model.release import Quantization
from modelctl.model.strict_json import Json, read_object
from modelctl.model.tree import DIGEST_PREFIX, Tree, scan_tree
from modelctl.progress import Progress

CALIBRATION_TEXT = Path(__file__).parent / "data" / "calibration.txt"
SAMPLE_TOKENS = 512
"""Tokens of one calibration sample; fewer when the model's longest input is shorter."""
RECIPE = "1"
"""Raised when the same request would give other bytes for a reason that the key does not hold."""

KEPT = (
    "tokenizer*.json", "tokenizer*.model", "*.tiktoken", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "vocab.txt", "merges.txt", "chat_template*", "chat_templates/*", "generation_config.json", "LICENSE*", "NOTICE*",
)  # fmt: skip
"""Files of the source that an engine reads beside config and weights, and what its licence asks to pass on."""

_PARTIAL = ".making-"
_LOCAL_META = ("offload_to_disk", "offload_to_disk_path")


def quantize(
    source: Tree,
    spec: Quantization,
    *,
    staging: Path,
    cache: Path,
    sandbox: Sandbox,
    progress: Progress,
    time_limit_s: float,
    memory_limit_bytes: int,
) -> Tree:
    """The quantised tree of `source`, made or found again.

    Raises `InputError` when the recipe does not fit the model (see `layers.check_specification`) or the weights are
    quantised already, `CannotDecideError` when a library is missing, the child fails or a limit is reached.
    """
    config = load_config(source)
    if config.quantization is not None:
        raise InputError(
            f"{source.root}: the weights are quantised already ({config.quantization.get('quant_method')})",
            remedy="take 'quantization' out of the release file and name the original as 'baseline'",
        )
    check_specification(source, spec)
    text = CALIBRATION_TEXT.read_text(encoding="utf-8")
    record = cache / "quantized" / f"{_key(source, spec, text)}.json"
    found = _remembered(record, staging, progress)
    if found is not None:
        return found
    staging.mkdir(parents=True, exist_ok=True)
    _sweep(staging)
    with tempfile.TemporaryDirectory(dir=staging, prefix=f"{_PARTIAL}{os.getpid()}-") as folder:
        output, ready = Path(folder, "output"), Path(folder, "tree")
        output.mkdir()
        ready.mkdir()
        with progress.task("quantise", total=config.num_layers, unit="steps") as task:
            worker.call(
                sandbox,
                "accuracy.quantize_worker",
                {
                    "source": str(source.root),
                    "output": str(output),
                    "bits": spec.bits,
                    "group_size": spec.group_size,
                    "desc_act": spec.desc_act,
                    "exclude": list(spec.exclude),
                    "samples": spec.calibration_samples,
                    "sample_tokens": min(SAMPLE_TOKENS, config.max_position_embeddings or SAMPLE_TOKENS),
                    "seed": spec.seed,
                    "dtype": working_dtype(config),
                    "text": text,
                },
                readable=source.folders,
                writable=[output],
                env=worker_environment(),
                devices=has_gpu(),
                time_limit_s=time_limit_s,
                memory_limit_bytes=memory_limit_bytes,
                task=task,
            )
        _assemble(source, config, output, ready)
        return _place(ready, staging, record, progress)


def working_dtype(config: ModelConfig) -> str:
    """The dtype of everything that is not quantised, and of both models when they are compared: float16 stays, the
    rest is bfloat16."""
    return "float16" if config.dtype == "float16" else "bfloat16"


def _key(source: Tree, spec: Quantization, text: str) -> str:
    parts = {
        "recipe": RECIPE,
        "source": source.digest,
        "spec": spec.model_dump(),
        "calibration": hashlib.sha256(text.encode()).hexdigest(),
        "sample_tokens": SAMPLE_TOKENS,
        "versions": dict(versions(QUANTISING)),
        "gpu": has_gpu(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _remembered(record: Path, staging: Path, progress: Progress) -> Tree | None:
    try:
        digest = str(json.loads(record.read_text(encoding="utf-8"))["tree_digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    folder = staging / digest.removeprefix(DIGEST_PREFIX)
    if not folder.is_dir():
        return None
    tree = scan_tree(folder, progress=progress, label="hash the quantised model")
    if tree.digest != digest:
        progress.note(f"{folder}: its bytes are not what was made; quantising again")
        shutil.rmtree(folder)
        return None
    progress.note("the quantised model is reused")
    return tree


def _sweep(staging: Path) -> None:
    """Take away what runs that were killed have left half-made."""
    import psutil

    for folder in staging.glob(f"{_PARTIAL}*"):
        maker = folder.name.removeprefix(_PARTIAL).partition("-")[0]
        if not (maker.isdigit() and psutil.pid_exists(int(maker))):
            shutil.rmtree(folder, ignore_errors=True)


def _assemble(source: Tree, config: ModelConfig, output: Path, ready: Path) -> None:
    """Put the served tree together. What the child wrote is trusted for weights and recipe only; its other files are
    dropped."""
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


def _portable(recipe: Mapping[str, Json]) -> dict[str, Json]:
    """The recipe without what only says where it was made."""
    meta = recipe.get("meta")
    if not isinstance(meta, Mapping):
        return dict(recipe)
    return {**recipe, "meta": {name: value for name, value in meta.items() if name not in _LOCAL_META}}


def _place(ready: Path, staging: Path, record: Path, progress: Progress) -> Tree:
    tree = scan_tree(ready, progress=progress, label="hash the quantised model")
    target = staging / tree.digest.removeprefix(DIGEST_PREFIX)
    if target.exists():
        shutil.rmtree(target)
    ready.rename(target)
    record.parent.mkdir(parents=True, exist_ok=True)
    partial = record.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps({"tree_digest": tree.digest}) + "\n", encoding="utf-8")
    partial.replace(record)
    return replace(tree, root=target.resolve())
