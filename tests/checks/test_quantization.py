"""The quantization check: what applies, and what is said beforehand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from modelctl.checks.base import CheckContext
from modelctl.checks.limits import QuantizationLimits
from modelctl.checks.quantization import CHECK
from modelctl.errors import CannotDecideError, DoesNotApplyError
from modelctl.model.release import Quantization
from tests.support.contexts import tree_context
from tests.support.models import tiny_llama
from tests.support.progress import Notes

LIMITS = QuantizationLimits(tasks=("modelctl_easy",), questions=1000)
RECIPE = Quantization(group_size=64, calibration_samples=16)


def context(folder: Path, tmp_path: Path, **changes: object) -> CheckContext[QuantizationLimits]:
    return replace(tree_context(folder, LIMITS, scratch=tmp_path / "scratch"), **changes)  # type: ignore[arg-type] # by name


def test_a_release_that_is_not_quantised_has_nothing_to_judge(tmp_path: Path) -> None:
    with pytest.raises(DoesNotApplyError):
        CHECK.run(context(tiny_llama(tmp_path / "model"), tmp_path))


def test_quantised_weights_without_an_original_cannot_be_judged(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "gptq"}}))
    with pytest.raises(CannotDecideError, match=r"quantised already \(gptq\)") as caught:
        CHECK.run(context(folder, tmp_path))
    assert caught.value.remedy is not None
    assert "baseline:" in caught.value.remedy


def test_what_a_comparison_will_take_is_said_beforehand(tmp_path: Path) -> None:
    progress = Notes()
    limits = LIMITS.model_copy(update={"memory_limit_gib": 0.5, "dtype": "float32", "task_folder": Path("../out")})
    folder = tiny_llama(tmp_path / "model")
    with pytest.raises(CannotDecideError):
        CHECK.run(context(folder, tmp_path, limits=limits, quantization=RECIPE, progress=progress))
    assert progress.lines == [
        "both models answer in float32: the policy demands it (quantization.dtype)",
        "estimate: 0.9 GB of memory, and what a batch of 32 questions takes",
        "that is more memory than the policy's memory_limit_gib allows (0.5 GiB)",
    ]


def test_a_task_folder_lies_in_the_registry_repository(tmp_path: Path) -> None:
    limits = LIMITS.model_copy(update={"task_folder": Path("../elsewhere")})
    folder = tiny_llama(tmp_path / "model")
    with pytest.raises(CannotDecideError, match=r"task folder \.\./elsewhere: outside of the registry repository"):
        CHECK.run(context(folder, tmp_path, limits=limits, quantization=RECIPE))
