"""A recipe held against a model before any work: which matrices, how much memory and time, under which name it is kept.

Nothing is loaded: safetensors headers and config.json say enough.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from modelctl.accuracy.calibration import CalibrationText, shipped
from modelctl.accuracy.estimate import Estimate, duration, estimate, measured_rate
from modelctl.accuracy.layers import LinearLayer, check_specification
from modelctl.accuracy.methods import method_of
from modelctl.accuracy.precision import widened, working_dtype
from modelctl.accuracy.tools import QUANTISING, has_gpu, versions
from modelctl.errors import InputError
from modelctl.model.config import ModelConfig, load_config
from modelctl.model.release import Quantization
from modelctl.model.tree import Tree

RECIPE = "3"
"""Raised when the same request would give other bytes for a reason that the key does not hold."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be made of which model, held against its layers."""

    source: Tree
    config: ModelConfig
    spec: Quantization
    text: CalibrationText
    chosen: tuple[LinearLayer, ...]
    sample_tokens: int
    dtype: str
    """Of everything that is not quantised."""
    widen: bool
    """Whether this machine multiplies that type in float32, having no arithmetic for it."""
    estimate: Estimate
    record: Path
    """Where it is remembered: named by the digest of all inputs."""


def plan(source: Tree, spec: Quantization, *, cache: Path, text: CalibrationText | None = None) -> Plan:
    """Hold a recipe against a model, and say what it will take. Nothing is loaded.

    Raises `InputError` when the recipe does not fit the model (see `layers.check_specification`) or the weights are
    quantised already, `CannotDecideError` when a library is missing.
    """
    config = load_config(source)
    if config.quantization is not None:
        raise InputError(
            f"{source.root}: the weights are quantised already ({method_of(config.quantization)})",
            remedy="take 'quantization' out of the release file and name the original as 'baseline'",
        )
    chosen = check_specification(source, spec)
    text = text or shipped()
    sample_tokens = min(spec.calibration_tokens, config.max_position_embeddings or spec.calibration_tokens)
    records = cache / "quantized"
    rate = measured_rate(records, device="cuda" if has_gpu() else "cpu")
    dtype = working_dtype(config)
    return Plan(
        source=source,
        config=config,
        spec=spec,
        text=text,
        chosen=chosen,
        sample_tokens=sample_tokens,
        dtype=dtype,
        widen=widened(dtype),
        estimate=estimate(source, config, spec, chosen, sample_tokens=sample_tokens, rate=rate),
        record=records / f"{_key(source, spec, text, widen=widened(dtype))}.json",
    )


def beforehand(wanted: Plan, *, memory_limit_bytes: int | None = None) -> tuple[str, ...]:
    """What a quantisation will do and take, in lines for a person who waits."""
    guess, spec = wanted.estimate, wanted.spec
    lines = [
        f"{guess.modules} matrices of {guess.layers} layers ({guess.quantized_elements / 1e6:.3g} million weights) to "
        f"{spec.bits} bits in groups of {spec.group_size}; {guess.kept_elements / 1e6:.3g} million weights stay "
        f"{wanted.dtype}",
        f"{spec.calibration_samples} samples of {wanted.sample_tokens} tokens to calibrate with ({wanted.text.origin})",
        f"estimate: {guess.memory_bytes / 1e9:.1f} GB of memory, {guess.output_bytes / 1e9:.2f} GB of weights, "
        + (
            f"{duration(guess.seconds)} at the rate of an earlier run on this machine"
            if guess.seconds is not None
            else "time is told after the second layer"
        ),
    ]
    if memory_limit_bytes is not None and guess.memory_bytes > memory_limit_bytes:
        lines.append(
            f"that is more memory than the policy's memory_limit_gib allows ({memory_limit_bytes / (1 << 30):g} GiB)"
        )
    return tuple(lines)


def _key(source: Tree, spec: Quantization, text: CalibrationText, *, widen: bool) -> str:
    parts = {
        "recipe": RECIPE,
        "source": source.digest,
        "spec": spec.model_dump(exclude={"calibration"}),
        "calibration": text.sha256,
        "versions": dict(versions(QUANTISING)),
        "gpu": has_gpu(),
        "widen": widen,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
