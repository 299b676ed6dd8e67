"""A tiny model as others have quantised it: rounded to 4 bits, packed as GPTQ and AWQ do, and beside it the plain model
of the same numbers.

Every scale is a power of two, so that the numbers which the packed words stand for are bfloat16 to the last bit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from modelctl.model.safetensors import read_header
from tests.support.models import Tensor, write_json, write_weights

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight neighbouring outputs the nibbles of a packed word hold, lowest first."""
GROUP_SIZE = 32
AWQ = {"quant_method": "awq", "bits": 4, "group_size": GROUP_SIZE, "version": "gemm", "zero_point": True}
GPTQ = {
    "quant_method": "gptq", "bits": 4, "group_size": GROUP_SIZE, "desc_act": False, "sym": True, "lm_head": False,
    "checkpoint_format": "gptq",
}  # fmt: skip
_MATRIX = re.compile(r"\.layers\.\d+\..*_proj\.weight$")
Numbers = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Rounded:
    """A matrix in 4 bits, inputs by outputs: `scales * (numbers - zeros)`, a scale and a zero for each group."""

    numbers: Numbers
    zeros: Numbers
    scales: Numbers

    @property
    def weights(self) -> Numbers:
        """The matrix as layers have it, outputs by inputs."""
        scales, zeros = (np.repeat(part, GROUP_SIZE, axis=0) for part in (self.scales, self.zeros))
        return np.ascontiguousarray((scales * (self.numbers - zeros)).T)


def awq_copy(source: Path, target: Path) -> Path:
    """Write `target`: the model of `source` (bfloat16, one file) with every matrix of a layer in AWQ's 4 bits."""
    return _copy(source, target, AWQ, lambda weights: _awq(_rounded(weights, symmetric=False)))


def gptq_copy(source: Path, target: Path) -> Path:
    """The same in GPTQ's 4 bits."""
    return _copy(source, target, GPTQ, lambda weights: _gptq(_rounded(weights, symmetric=True)))


def plain_copy(source: Path, target: Path, *, symmetric: bool) -> Path:
    """The model that `gptq_copy` (symmetric) or `awq_copy` packs, in bfloat16."""

    def parts(weights: Numbers) -> dict[str, Tensor]:
        rounded = _rounded(weights, symmetric=symmetric).weights
        halves = (np.ascontiguousarray(rounded, "<f4").view("<u4") >> 16).astype("<u2")
        return {"weight": ("BF16", rounded.shape, halves.tobytes())}

    return _copy(source, target, None, parts)


def _copy(
    source: Path, target: Path, recipe: dict[str, object] | None, parts: Callable[[Numbers], dict[str, Tensor]]
) -> Path:
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            (target / path.name).write_bytes(path.read_bytes())
    config = json.loads((source / "config.json").read_text())
    write_json(target / "config.json", {**config, **({"quantization_config": recipe} if recipe else {})})
    content = (source / "model.safetensors").read_bytes()
    header = read_header(source / "model.safetensors")
    tensors: dict[str, Tensor] = {}
    for tensor in header.tensors:
        data = content[header.data_start + tensor.begin : header.data_start + tensor.end]
        if not _MATRIX.search(tensor.name):
            tensors[tensor.name] = (tensor.dtype, tensor.shape, data)
            continue
        weights = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(tensor.shape)
        tensors |= {f"{tensor.name.removesuffix('weight')}{part}": made for part, made in parts(weights).items()}
    write_weights(target, tensors)
    return target


def _rounded(weights: Numbers, *, symmetric: bool) -> Rounded:
    inputs_first = weights.T
    groups = inputs_first.reshape(-1, GROUP_SIZE, inputs_first.shape[1])
    low, high = groups.min(axis=1).clip(max=0), groups.max(axis=1).clip(min=0)
    span = np.maximum(-low, high) / 7 if symmetric else (high - low) / 15
    scales = np.exp2(np.ceil(np.log2(span))).astype(np.float32)
    zeros = np.full_like(scales, 8) if symmetric else np.round(-low / scales).clip(0, 15)
    numbers = np.round(groups / scales[:, None] + zeros[:, None]).clip(0, 15).reshape(inputs_first.shape)
    return Rounded(numbers, zeros, scales)


def _awq(rounded: Rounded) -> dict[str, Tensor]:
    return {
        "qweight": _words(rounded.numbers, AWQ_ORDER),
        "qzeros": _words(rounded.zeros, AWQ_ORDER),
        "scales": _half(rounded.scales),
    }


def _gptq(rounded: Rounded) -> dict[str, Tensor]:
    """Words along the inputs; zeros are stored less one."""
    inputs = len(rounded.numbers)
    dtype, (outputs, words), data = _words(rounded.numbers.T, range(8))
    along_inputs = np.frombuffer(data, "<i4").reshape(outputs, words).T
    return {
        "qweight": (dtype, along_inputs.shape, along_inputs.tobytes()),
        "qzeros": _words(rounded.zeros - 1, range(8)),
        "scales": _half(rounded.scales),
        "g_idx": ("I32", (inputs,), (np.arange(inputs, dtype="<i4") // GROUP_SIZE).tobytes()),
    }


def _half(scales: Numbers) -> Tensor:
    return "F16", scales.shape, scales.astype("<f2").tobytes()


def _words(numbers: Numbers, order: tuple[int, ...] | range) -> Tensor:
    """Eight neighbouring numbers of 4 bits in one word."""
    eights = numbers.astype(np.uint32).reshape(numbers.shape[0], -1, 8)
    words = np.zeros(eights.shape[:2], "<u4")
    for place, number in enumerate(order):
        words |= eights[:, :, number] << np.uint32(4 * place)
    return "I32", words.shape, words.tobytes()
