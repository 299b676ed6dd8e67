"""Packed weights are measured as the numbers they stand for, in the kernels that the original runs through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from modelctl.accuracy.evaluate import Results, evaluate
from modelctl.accuracy.questions import prepare
from modelctl.isolation import Sandbox
from modelctl.model.tree import scan_tree
from modelctl.progress import SILENT
from tests.support.models import tiny_llama
from tests.support.packed import awq_copy, gptq_copy, plain_copy


@pytest.mark.slow
@pytest.mark.parametrize("packed_copy", [gptq_copy, awq_copy])
def test_packed_weights_answer_to_the_last_bit_as_the_numbers_they_stand_for(
    tmp_path: Path, packed_copy: Callable[[Path, Path], Path]
) -> None:
    original = tiny_llama(tmp_path / "original")
    packed = packed_copy(original, tmp_path / "packed")
    plain = plain_copy(original, tmp_path / "plain", symmetric=packed_copy is gptq_copy)
    questions = prepare(["modelctl_easy"], cache=tmp_path, progress=SILENT, time_limit_s=60, memory_limit_bytes=4 << 30)

    def answers(folder: Path) -> Results:
        return evaluate(
            scan_tree(folder), questions, limit=100, seed=0, dtype="float32", cache=tmp_path, sandbox=Sandbox(),
            progress=SILENT, label="answer", time_limit_s=500, memory_limit_bytes=8 << 30,
        )  # fmt: skip

    of_packed, of_plain = answers(packed), answers(plain)
    assert of_packed.documents == of_plain.documents
    assert of_packed.texts == of_plain.texts
