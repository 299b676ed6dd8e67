"""The whole way on a real model, SmolLM2-135M-Instruct: 8 bits lose next to nothing, 4 bits everywhere are measured to
lose, and the same model with its scales scrambled is refused.

The original answers once: answers are kept by the digest of all that moves them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from modelctl.accuracy.quantize import Quantized, quantize
from modelctl.checks.base import CheckContext, Observation, Scalar
from modelctl.checks.limits import QuantizationLimits
from modelctl.checks.quantization import CHECK, EVIDENCE
from modelctl.isolation import Sandbox
from modelctl.model.release import Quantization
from modelctl.model.safetensors import read_header
from modelctl.model.tree import scan_tree
from tests.support.contexts import KeptEvidence, tree_context
from tests.support.progress import Notes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MODEL = Path(__file__).resolve().parents[2] / ".cache" / "models" / "SmolLM2-135M-Instruct"
QUESTIONS = 100
PRODUCTION = QuantizationLimits(tasks=("modelctl_easy",), questions=QUESTIONS)
LENIENT = PRODUCTION.model_copy(update={"max_drop_points": 10})


@dataclass(frozen=True)
class Made:
    """A quantised model, how it was made, and the context in which it is judged."""

    quantized: Quantized
    context: CheckContext[QuantizationLimits]

    def judged(self, limits: QuantizationLimits) -> Observation:
        """What the check says under some limits."""
        return CHECK.run(replace(self.context, limits=limits))


def make(context: CheckContext[QuantizationLimits], *, bits: int, exclude: Sequence[str] = ()) -> Made:
    """The model in so many bits, quickly: two samples of text instead of 256."""
    recipe = Quantization.model_validate(
        {"bits": bits, "group_size": 64, "exclude": exclude, "calibration_samples": 2, "calibration_tokens": 256}
    )
    quantized = quantize(
        context.source.tree,
        recipe,
        staging=context.root / "staging",
        cache=context.cache,
        sandbox=Sandbox(),
        progress=context.progress,
        time_limit_s=1500,
        memory_limit_bytes=8 << 30,
    )
    tree = quantized.tree
    return Made(quantized, replace(context, served=tree, tree=tree, quantization=recipe, made=quantized))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> CheckContext[QuantizationLimits]:
    """A context whose cache has the original's answers once they were given."""
    assert MODEL.is_dir(), f"no {MODEL}: run make setup"
    return tree_context(MODEL, PRODUCTION, scratch=tmp_path_factory.mktemp("real-model"))


@pytest.fixture(scope="module")
def four_bits(original: CheckContext[QuantizationLimits]) -> Made:
    return make(original, bits=4)


def figures(observation: Observation) -> Mapping[str, Scalar]:
    """The figures that are there once."""
    return {item.name: item.value for item in observation.measurements if not item.name.endswith("-change")}


def number(value: Scalar) -> float:
    assert isinstance(value, float)
    return value


def test_eight_bits_lose_next_to_nothing_and_a_hundred_questions_do_not_prove_it(
    original: CheckContext[QuantizationLimits],
) -> None:
    made = make(original, bits=8, exclude=["self_attn"])
    assert made.quantized.made.modules == 90
    assert made.quantized.tree.size_bytes < 0.75 * original.tree.size_bytes

    seen = made.judged(LENIENT)
    assert (seen.findings, seen.undecided) == ((), ()), "a few changed answers of a hundred stay under ten points"
    assert number(figures(seen)["accuracy-drop"]) < 4
    assert figures(seen)["quantised-modules"] == 90
    assert any("calibrated with 2 samples" in warning for warning in seen.warnings)

    seen = made.judged(PRODUCTION)
    assert seen.findings == ()
    (undecided,) = seen.undecided
    assert "the limit of 1.5 points lies inside the interval" in undecided.reason
    assert undecided.remedy is not None
    assert f"questions would decide (quantization.questions); {QUESTIONS} were answered" in undecided.remedy


def test_four_bits_everywhere_are_measured_to_lose_and_a_second_look_takes_what_was_kept(four_bits: Made) -> None:
    notes = Notes()
    made = replace(four_bits, context=replace(four_bits.context, progress=notes))
    seen = made.judged(PRODUCTION)
    measured = figures(seen)
    assert 0.75 < number(measured["accuracy-baseline"]) < 1
    assert number(measured["accuracy-candidate"]) < number(measured["accuracy-baseline"])
    assert number(measured["accuracy-drop-upper"]) > 1.5
    assert seen.findings or seen.undecided, "it is not admitted"
    assert 0 < number(measured["bits-per-byte-rise"]) < 1
    assert seen.coverage[0].seen == QUESTIONS
    evidence = made.context.evidence
    assert isinstance(evidence, KeptEvidence)
    assert evidence.kept[EVIDENCE].count(b"\n") == QUESTIONS

    notes.lines.clear()
    again = make(made.context, bits=4)
    assert again.quantized == replace(made.quantized, reused=True)
    assert again.judged(PRODUCTION).measurements == seen.measurements
    reused = [line for line in notes.lines if "reused" in line]
    assert reused == [
        "the quantised model is reused",
        "answer: original: the answers of an earlier run are reused",
        "answer: quantised: the answers of an earlier run are reused",
    ]


def test_scrambled_scales_are_refused_and_the_sums_go_first(four_bits: Made, tmp_path: Path) -> None:
    damaged = scan_tree(scrambled(four_bits.quantized.tree.root, tmp_path / "damaged"))
    context = replace(four_bits.context, served=damaged, tree=damaged, quantization=None, made=None)
    seen = CHECK.run(replace(context, baseline=context.source))
    measured = figures(seen)
    (finding,) = seen.findings
    assert finding.rule == "quantization.accuracy-drop"
    assert f"n={QUESTIONS}, 95 % interval" in finding.message
    assert "the limit is 1.5 points" in finding.message
    assert seen.undecided == ()
    assert number(measured["accuracy-drop-lower"]) > 20
    assert number(measured["bits-per-byte-rise"]) > 1
    sums = next(item for item in seen.measurements if item.parameters.get("subject") == "sums")
    assert isinstance(sums.value, int)
    assert sums.value <= -3


def scrambled(source: Path, target: Path) -> Path:
    """A copy in which each layer's scales are shuffled among its groups and outputs: well-formed, and wrong."""
    shutil.copytree(source, target)
    path = target / "model.safetensors"
    header = read_header(path)
    random = np.random.default_rng(0)
    with path.open("r+b") as stream:
        for tensor in header.tensors:
            if tensor.name.endswith(".scales"):
                stream.seek(header.data_start + tensor.begin)
                scales = np.frombuffer(stream.read(tensor.end - tensor.begin), dtype="<u2")
                stream.seek(header.data_start + tensor.begin)
                stream.write(random.permutation(scales).tobytes())
    return target
