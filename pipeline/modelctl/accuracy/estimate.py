"""What a quantisation will take, said before it begins: memory and size from the real tensors, time from what earlier
runs on this machine took.

Memory is that of gptqmodel on a CPU: all weights in the working dtype, the Hessians of one block's modules (inputs
squared, float32) with a working copy of the largest, and what goes into and comes out of a block for every sample.
Time counts multiplications: each token passes every matrix twice (once to be watched, once to go on) and enters its
Hessian once; then each Hessian is factorised and each matrix solved column by column.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from modelctl.accuracy.layers import LinearLayer, stored_tensors
from modelctl.model.config import ModelConfig
from modelctl.model.release import Quantization
from modelctl.model.safetensors import DTYPE_BITS
from modelctl.model.tree import Tree

LIBRARIES_BYTES = 900 << 20
"""Of a process that has torch, transformers and gptqmodel loaded (measured)."""
_WORKING_BYTES = 2
"""Of an element in bfloat16 or float16."""
_FLOAT32_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a quantisation will take."""

    layers: int
    """Blocks of the model, None stated counts as 0."""
    modules: int
    """Matrices that will be quantised."""
    quantized_elements: int
    kept_elements: int
    tokens: int
    """Of calibration text, at most."""
    memory_bytes: int
    output_bytes: int
    work: float
    """Multiplications, roughly."""
    seconds: float | None
    """From earlier runs on this machine; None when there was none."""


def estimate(
    tree: Tree,
    config: ModelConfig,
    spec: Quantization,
    chosen: Sequence[LinearLayer],
    *,
    sample_tokens: int,
    rate: float | None,
) -> Estimate:
    """What quantising `chosen` takes; `rate` is in multiplications a second (see `measured_rate`)."""
    elements = sum(tensor.elements for tensor in stored_tensors(tree) if DTYPE_BITS[tensor.dtype] >= 16)
    quantized = sum(layer.in_features * layer.out_features for layer in chosen)
    tokens = spec.calibration_samples * sample_tokens
    blocks = max(config.num_layers or 1, 1)
    hessians = sum(layer.in_features**2 for layer in chosen) / blocks
    largest = max(layer.in_features**2 for layer in chosen)
    states = 2 * tokens * (config.hidden_size or 0) * _WORKING_BYTES
    memory = (
        LIBRARIES_BYTES
        + elements * _WORKING_BYTES
        + (hessians + 2 * largest) * _FLOAT32_BYTES
        + states
        + max(layer.in_features * layer.out_features for layer in chosen) * _FLOAT32_BYTES
    )
    bits_each = spec.bits + (16 + spec.bits) / spec.group_size
    work = sum(
        tokens * layer.in_features * (2 * layer.out_features + layer.in_features)
        + layer.in_features**3
        + layer.out_features * layer.in_features**2
        for layer in chosen
    )
    return Estimate(
        layers=config.num_layers or 0,
        modules=len(chosen),
        quantized_elements=quantized,
        kept_elements=elements - quantized,
        tokens=tokens,
        memory_bytes=int(memory),
        output_bytes=int(quantized * bits_each / 8 + (elements - quantized) * _WORKING_BYTES),
        work=float(work),
        seconds=work / rate if rate else None,
    )


def answering_bytes(original: Tree, dtype: str) -> int:
    """Memory of a process that has a model of as many weights loaded in `dtype`, quantised ones unpacked too; what a
    batch of questions takes beside that depends on their length."""
    elements = sum(tensor.elements for tensor in stored_tensors(original) if DTYPE_BITS[tensor.dtype] >= 16)
    return LIBRARIES_BYTES + elements * (_FLOAT32_BYTES if dtype == "float32" else _WORKING_BYTES)


def measured_rate(records: Path, *, device: str) -> float | None:
    """Multiplications a second of the largest run whose record lies in a folder; None when no run is known.

    Records are those of `staging`, each with the `work` that was estimated for it and the `seconds` that it took; a
    small run says little, since loading and saving take most of it.
    """
    largest: tuple[float, float] | None = None
    for record in records.glob("*.json"):
        try:
            kept = json.loads(record.read_text(encoding="utf-8"))
            if kept["device"] != device:
                continue
            found = (float(kept["work"]), float(kept["work"]) / float(kept["seconds"]))
        except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
            continue
        largest = max(largest, found) if largest else found
    return largest[1] if largest else None


def duration(seconds: float) -> str:
    """A time for people: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
