"""In which floating-point type two models are compared: chosen once, for both.

It is the model's own half type where the machine multiplies in it at a fair rate, else float32, which holds every
value of both half types exactly: then only the sums are more precise, and in both models alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from modelctl.accuracy.methods import method_of
from modelctl.accuracy.tools import has_gpu
from modelctl.errors import CannotDecideError
from modelctl.model.config import ModelConfig
from modelctl.model.strict_json import Json

Demand = Literal["auto", "bfloat16", "float16", "float32"]
"""What a policy may ask for."""

UNPACKED = ("gptq", "awq")
"""Methods whose weights are unpacked before they are multiplied; the kernels of others only know half types."""

_ENOUGH: Mapping[str, tuple[frozenset[str], ...]] = {
    "bfloat16": (
        frozenset({"avx512bw", "avx512vl", "avx512dq"}), frozenset({"avx_ne_convert"}), frozenset({"bf16"}),
    ),
    "float16": (frozenset({"avx512_fp16"}), frozenset({"asimdhp"})),
}  # fmt: skip
"""Processor flags, any set of which is enough. They are those that oneDNN asks for before it multiplies matrices of
that type; without them PyTorch takes five times as long as for float32 (measured, AVX2)."""
_FLAGS = re.compile(r"^(?:flags|Features)\s*:(.*)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The type of both models' numbers, and why it is this one."""

    dtype: str
    because: str


def working_dtype(config: ModelConfig) -> str:
    """A model's own half type, in which everything stays that is not quantised: float16, or else bfloat16."""
    return "float16" if config.dtype == "float16" else "bfloat16"


def choose(demanded: Demand, config: ModelConfig, recipes: Iterable[Mapping[str, Json]]) -> Precision:
    """The type in which to compare: `config` is the original's, `recipes` are the quantisations among the two models.

    Raises `CannotDecideError` when the policy demands float32 of weights whose kernels do not know it.
    """
    own = working_dtype(config)
    bound = [method for method in map(method_of, recipes) if method not in UNPACKED]
    if demanded == "float32" and bound:
        raise CannotDecideError(
            f"the policy demands float32, and weights quantised by {bound[0]} are multiplied in half types only",
            remedy="write quantization.dtype: auto in the policy",
        )
    if demanded != "auto":
        return Precision(dtype=demanded, because="the policy demands it (quantization.dtype)")
    if has_gpu():
        return Precision(dtype=own, because="the model's own, on a GPU")
    if bound:
        return Precision(dtype=own, because=f"the model's own, which the kernels of {bound[0]} know")
    if multiplies(own):
        return Precision(dtype=own, because="the model's own, which this processor multiplies")
    return Precision(
        dtype="float32",
        because=f"this processor has no {own} arithmetic; float32 holds the same values and is several times as fast",
    )


def widened(dtype: str) -> bool:
    """Whether a half type is multiplied in float32 here (`widening`), for want of arithmetic of its own."""
    return dtype in _ENOUGH and not has_gpu() and not multiplies(dtype)


def multiplies(dtype: str, cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this processor multiplies matrices of a half type at a fair rate; False when it does not say."""
    try:
        said = _FLAGS.search(cpuinfo.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return False
    flags = frozenset(said.group(1).split()) if said else frozenset()
    return any(enough <= flags for enough in _ENOUGH[dtype])
