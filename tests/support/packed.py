"""A tiny model as others have quantised it: round to nearest, packed the way AWQ's GEMM kernels want it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from modelctl.model.safetensors import read_header
from tests.support.models import Tensor, write_json, write_weights

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight neighbouring outputs the nibbles of a packed word hold, lowest first."""
_MATRIX = re.compile(r"\.layers\.\d+\..*_proj\.weight$")


def awq_copy(source: Path, target: Path, *, group_size: int = 32) -> Path:
    """Write `target`: the model of `source` (bfloat16, one file) with every matrix of a layer in 4 bits."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            (target / path.name).write_bytes(path.read_bytes())
    config = json.loads((source / "config.json").read_text())
    recipe = {"quant_method": "awq", "bits": 4, "group_size": group_size, "version": "gemm", "zero_point": True}
    write_json(target / "config.json", {**config, "quantization_config": recipe})
    content = (source / "model.safetensors").read_bytes()
    header = read_header(source / "model.safetensors")
    tensors: dict[str, Tensor] = {}
    for tensor in header.tensors:
        data = content[header.data_start + tensor.begin : header.data_start + tensor.end]
        if not _MATRIX.search(tensor.name):
            tensors[tensor.name] = (tensor.dtype, tensor.shape, data)
            continue
        weights = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(tensor.shape)
        for part, packed in _packed(weights, group_size).items():
            dtype = "F16" if packed.dtype == np.float16 else "I32"
            tensors[f"{tensor.name.removesuffix('weight')}{part}"] = (dtype, packed.shape, packed.tobytes())
    write_weights(target, tensors)
    return target


def _packed(weights: npt.NDArray[np.float32], group_size: int) -> dict[str, npt.NDArray[np.generic]]:
    inputs_first = weights.T
    groups = inputs_first.reshape(-1, group_size, inputs_first.shape[1])
    low, high = groups.min(axis=1).clip(max=0), groups.max(axis=1).clip(min=0)
    scales = ((high - low) / 15).astype(np.float16)
    zeros = np.round(-low / scales).clip(0, 15)
    numbers = np.round(groups / scales[:, None] + zeros[:, None]).clip(0, 15).reshape(inputs_first.shape)
    return {"qweight": _words(numbers), "qzeros": _words(zeros), "scales": scales}


def _words(numbers: npt.NDArray[np.floating]) -> npt.NDArray[np.int32]:
    """Eight numbers of 4 bits in one word, along the outputs."""
    eights = numbers.astype(np.uint32).reshape(numbers.shape[0], -1, 8)
    words = np.zeros(eights.shape[:2], np.uint32)
    for place, output in enumerate(AWQ_ORDER):
        words |= eights[:, :, output] << np.uint32(4 * place)
    return words.view(np.int32)
