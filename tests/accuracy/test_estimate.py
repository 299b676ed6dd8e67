"""What a quantisation is said to take before it begins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.accuracy.estimate import LIBRARIES_BYTES, answering_bytes, duration, measured_rate
from modelctl.accuracy.plan import beforehand, plan
from modelctl.model.release import Quantization
from modelctl.model.tree import scan_tree
from tests.support.models import tiny_llama

SPEC = Quantization(group_size=32, exclude=("self_attn",), calibration_samples=4)


def test_sizes_are_those_of_the_tensors(tmp_path: Path) -> None:
    wanted = plan(scan_tree(tiny_llama(tmp_path / "model", layers=2, hidden=64)), SPEC, cache=tmp_path)
    guess = wanted.estimate
    assert guess.modules == 6
    assert guess.quantized_elements == 2 * 3 * 64 * 128
    assert guess.kept_elements == 320 * 64 + 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 2 * 64)
    assert guess.tokens == 4 * 256, "a sample is no longer than the model's longest input"
    assert guess.output_bytes == pytest.approx(
        guess.quantized_elements * (4 + 20 / 32) / 8 + guess.kept_elements * 2, abs=1
    )
    assert LIBRARIES_BYTES < guess.memory_bytes < LIBRARIES_BYTES + (8 << 20)
    assert guess.seconds is None


def test_time_follows_the_largest_run_on_the_same_device(tmp_path: Path) -> None:
    source = scan_tree(tiny_llama(tmp_path / "model"))
    records = tmp_path / "quantized"
    records.mkdir()
    rows = [("a", "cpu", 1e6, 50.0), ("b", "cpu", 1e9, 100.0), ("c", "cuda", 1e12, 1.0)]
    for name, device, work, seconds in rows:
        (records / f"{name}.json").write_text(json.dumps({"device": device, "work": work, "seconds": seconds}))
    (records / "d.json").write_text("{")
    assert measured_rate(records, device="cpu") == 1e7
    assert measured_rate(records, device="tpu") is None
    guess = plan(source, SPEC, cache=tmp_path).estimate
    assert guess.seconds == pytest.approx(guess.work / 1e7)


def test_a_memory_limit_that_is_too_low_is_said_beforehand(tmp_path: Path) -> None:
    wanted = plan(scan_tree(tiny_llama(tmp_path / "model")), SPEC, cache=tmp_path)
    assert len(beforehand(wanted, memory_limit_bytes=64 << 30)) == 3
    assert beforehand(wanted, memory_limit_bytes=1 << 29)[-1] == (
        "that is more memory than the policy's memory_limit_gib allows (0.5 GiB)"
    )


def test_answering_takes_the_weights_in_the_type_of_the_comparison(tmp_path: Path) -> None:
    tree = scan_tree(tiny_llama(tmp_path / "model", layers=2, hidden=64))
    guess = plan(tree, SPEC, cache=tmp_path).estimate
    elements = guess.quantized_elements + guess.kept_elements
    assert answering_bytes(tree, "bfloat16") == LIBRARIES_BYTES + 2 * elements
    assert answering_bytes(tree, "float32") == LIBRARIES_BYTES + 4 * elements


@pytest.mark.parametrize(("seconds", "words"), [(4.2, "4 s"), (89, "89 s"), (600, "10 min"), (7200, "2.0 h")])
def test_a_time_for_people(seconds: float, words: str) -> None:
    assert duration(seconds) == words
