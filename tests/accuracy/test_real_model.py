"""The whole way on a real model: SmolLM2-135M-Instruct in 4 bits everywhere is measured to be worse, and refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from modelctl.accuracy.quantize import quantize
from modelctl.checks.quantization import CHECK, EVIDENCE, QuantizationLimits
from modelctl.isolation import Sandbox
from modelctl.model.release import Quantization
from modelctl.progress import SILENT
from tests.support.contexts import KeptEvidence, tree_context

MODEL = Path(__file__).resolve().parents[2] / ".cache" / "models" / "SmolLM2-135M-Instruct"
QUESTIONS = 400


@pytest.mark.slow
def test_four_bits_everywhere_lose_points_on_the_same_questions(tmp_path: Path) -> None:
    assert MODEL.is_dir(), f"no {MODEL}: run make setup"
    recipe = Quantization(bits=4, group_size=64, calibration_samples=16)
    context = tree_context(
        MODEL, QuantizationLimits(tasks=("modelctl_easy",), questions=QUESTIONS), scratch=tmp_path / "scratch"
    )
    made = quantize(
        context.tree,
        recipe,
        staging=tmp_path / "staging",
        cache=context.cache,
        sandbox=Sandbox(),
        progress=SILENT,
        time_limit_s=600,
        memory_limit_bytes=8 << 30,
    )
    context = replace(context, served=made.tree, tree=made.tree, quantization=recipe, made=made)
    observation = CHECK.run(context)

    figures = {item.name: item.value for item in observation.measurements}
    assert isinstance(figures["accuracy-baseline"], float)
    assert 0.8 < figures["accuracy-baseline"] < 0.97
    (finding,) = observation.findings
    assert finding.rule == "quantization.accuracy-drop"
    assert observation.undecided == ()
    assert observation.coverage[0].seen == QUESTIONS
    evidence = context.evidence
    assert isinstance(evidence, KeptEvidence)
    assert evidence.kept[EVIDENCE].count(b"\n") == QUESTIONS

    before = len(list((context.cache / "evaluations").iterdir()))
    assert CHECK.run(context).measurements == observation.measurements, "a second run reuses the answers"
    assert len(list((context.cache / "evaluations").iterdir())) == before == 2
