"""SmolLM2-135M-Instruct in 8 bits answers as it did before: what a good quantisation looks like to the check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from modelctl.accuracy.quantize import quantize
from modelctl.checks.quantization import CHECK, QuantizationLimits
from modelctl.isolation import Sandbox
from modelctl.model.release import Quantization
from modelctl.progress import SILENT
from tests.support.contexts import tree_context

MODEL = Path(__file__).resolve().parents[2] / ".cache" / "models" / "SmolLM2-135M-Instruct"
RECIPE = Quantization(bits=8, group_size=64, calibration_samples=8, calibration_tokens=256)


@pytest.mark.long
def test_eight_bits_lose_next_to_nothing(tmp_path: Path) -> None:
    assert MODEL.is_dir(), f"no {MODEL}: run make setup"
    limits = QuantizationLimits(tasks=("modelctl_easy",), questions=100, max_drop_points=10)
    context = tree_context(MODEL, limits, scratch=tmp_path / "scratch")
    made = quantize(
        context.tree,
        RECIPE,
        staging=tmp_path / "staging",
        cache=context.cache,
        sandbox=Sandbox(),
        progress=SILENT,
        time_limit_s=1800,
        memory_limit_bytes=8 << 30,
    )
    assert made.made.modules == 210
    assert made.tree.size_bytes < 0.75 * context.tree.size_bytes
    seen = CHECK.run(replace(context, served=made.tree, tree=made.tree, quantization=RECIPE, made=made))
    figures = {item.name: item.value for item in seen.measurements}
    assert seen.findings == ()
    assert seen.undecided == (), "a few changed answers of a hundred stay under a limit of ten points"
    assert isinstance(figures["accuracy-drop"], float)
    assert figures["accuracy-drop"] < 4
    assert figures["quantised-modules"] == 210
