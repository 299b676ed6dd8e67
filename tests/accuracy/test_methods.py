"""Weights that others have quantised: recognised by their config, and measured only where that can be done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from modelctl.accuracy import methods
from modelctl.accuracy.evaluate import evaluate
from modelctl.accuracy.methods import method_of, require_measurable
from modelctl.accuracy.questions import prepare
from modelctl.errors import CannotDecideError
from modelctl.isolation import Sandbox
from modelctl.model.tree import scan_tree
from modelctl.progress import SILENT
from tests.support.models import tiny_llama
from tests.support.packed import awq_copy


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "has_gpu", lambda: False)


@pytest.mark.parametrize(
    ("recipe", "method"),
    [
        ({"quant_method": "gptq", "bits": 4}, "gptq"),
        ({"quant_method": "awq", "version": "gemm"}, "awq"),
        ({"quant_method": "compressed-tensors"}, "compressed-tensors"),
        ({"config_groups": {}, "format": "pack-quantized"}, "compressed-tensors"),
        ({"load_in_4bit": True}, "bitsandbytes"),
        ({}, "unnamed"),
    ],
)
def test_a_method_is_known_by_its_config(recipe: dict[str, Any], method: str) -> None:
    assert method_of(recipe) == method


@pytest.mark.parametrize(
    "recipe", [{"quant_method": "gptq", "checkpoint_format": "gptq"}, {"quant_method": "awq", "version": "gemm"}]
)
def test_gptq_and_awq_are_measured_on_a_processor(recipe: dict[str, Any]) -> None:
    require_measurable(recipe)


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"quant_method": "fp8"}, "measured on a GPU only"),
        ({"quant_method": "gptq", "checkpoint_format": "marlin"}, "measured on a GPU only"),
        ({"quant_method": "awq", "version": "GEMV_FAST"}, "measured on a GPU only"),
        ({"quant_method": "compressed-tensors"}, "needs compressed-tensors, which is not installed"),
        ({"quant_method": "aqlm"}, r"a method that is not measured here \(aqlm\)"),
        ({}, r"\(unnamed\)"),
    ],
)
def test_what_can_not_be_measured_here_says_why(
    recipe: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CannotDecideError, match=words):
        require_measurable(recipe)


def test_a_gpu_is_enough_for_what_needs_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(methods, "has_gpu", lambda: True)
    require_measurable(json.loads('{"quant_method": "fp8"}'))


@pytest.mark.slow
def test_awq_weights_answer_nearly_as_their_original_on_a_processor(tmp_path: Path) -> None:
    original = tiny_llama(tmp_path / "original", layers=2, hidden=64)
    packed = awq_copy(original, tmp_path / "packed")
    questions = prepare(["modelctl_easy"], cache=tmp_path, progress=SILENT, time_limit_s=60, memory_limit_bytes=4 << 30)

    def chosen(folder: Path) -> list[int]:
        results = evaluate(
            scan_tree(folder), questions, limit=100, seed=0, dtype="bfloat16", cache=tmp_path, sandbox=Sandbox(),
            progress=SILENT, label="answer", time_limit_s=500, memory_limit_bytes=8 << 30,
        )  # fmt: skip
        return [document.chosen for document in results.documents]

    pairs = list(zip(chosen(original), chosen(packed), strict=True))
    assert sum(first == second for first, second in pairs) > 70, "a wrong unpacking would agree by chance only"
