"""Weights that others have quantised: recognised by their config, and measured only where that can be done."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modelctl.accuracy import methods
from modelctl.accuracy.methods import method_of, require_measurable
from modelctl.errors import CannotDecideError


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


def test_a_gpu_is_enough_for_what_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "has_gpu", lambda: True)
    require_measurable(json.loads('{"quant_method": "fp8"}'))
