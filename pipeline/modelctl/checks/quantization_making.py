"""What the report of `quantization` says of weights that modelctl quantised: the whole recipe, and what weakens it."""

from __future__ import annotations

from modelctl.accuracy.quantize import Quantized
from modelctl.accuracy.staging import Made
from modelctl.checks.base import Measurement, Observation, Scalar
from modelctl.model.release import Quantization


def of_making(made: Quantized, spec: Quantization) -> Observation:
    """How the served tree was made: one measurement with every parameter that moves its bytes, and the warnings."""
    facts = made.made
    parameters: dict[str, Scalar] = {
        "served_digest": facts.tree_digest,
        "recipe_digest": facts.recipe_digest,
        **recipe_parameters(spec),
        "calibration": facts.calibration,
        "calibration_sha256": facts.calibration_sha256,
        "calibration_tokens": facts.sample_tokens,
        "text_tokens": facts.text_tokens,
        "device": facts.device,
        "threads": facts.threads,
        "instructions": facts.instructions,
        "same_bytes_with": same_bytes_with(facts),
        "duration_s": facts.seconds,
        "peak_memory_mib": facts.peak_memory_bytes >> 20,
    }
    measurement = Measurement(name="quantised-modules", value=facts.modules, parameters=parameters)
    return Observation(coverage=(), measurements=(measurement,), warnings=made.warnings, tools=dict(facts.versions))


def same_bytes_with(facts: Made) -> str:
    """Under which conditions the same inputs give the same bytes again, beside the versions."""
    if facts.device != "cpu":
        return "not promised: made on a GPU"
    return f"{facts.threads} threads and {facts.instructions} on a processor; others may round otherwise"


def recipe_parameters(spec: Quantization) -> dict[str, Scalar]:
    """The recipe of a release as flat values, without its calibration text."""
    return {
        "method": spec.method,
        "bits": spec.bits,
        "group_size": spec.group_size,
        "desc_act": spec.desc_act,
        "exclude": ", ".join(spec.exclude),
        "calibration_samples": spec.calibration_samples,
        "quantization_seed": spec.seed,
    }
