"""MMLU itself, from a folder as a site without a network keeps it. The rows are set up by scripts/setup.py."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from modelctl.accuracy.questions import prepare
from modelctl.checks.limits import QuantizationLimits
from modelctl.checks.quantization import CHECK
from modelctl.progress import SILENT
from tests.support.contexts import tree_context

PROJECT = Path(__file__).resolve().parents[2]
ROWS = PROJECT / ".cache" / "mmlu" / "mmlu.jsonl"
MODEL = PROJECT / ".cache" / "models" / "SmolLM2-135M-Instruct"
TASK = """\
task: mmlu
dataset_path: json
dataset_kwargs:
  data_files:
    test: mmlu.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}\\n{% for choice in choices %}{{'ABCD'[loop.index0]}}. {{choice}}\\n{% endfor %}Answer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: answer
metric_list:
  - metric: acc
"""


def vendored(folder: Path) -> Path:
    """MMLU as a task folder; its subjects are the topics of the rows."""
    assert ROWS.is_file(), f"no {ROWS}: run python3 scripts/setup.py mmlu"
    folder.mkdir()
    (folder / "mmlu.yaml").write_text(TASK)
    with (folder / "mmlu.jsonl").open("w") as stream:
        for row in map(json.loads, ROWS.read_text(encoding="utf-8").splitlines()):
            if row["correct_answer"] not in tuple("ABCD"):
                continue  # two rows are column headings
            choices = [str(row[f"answer_{letter}"]) for letter in "abcd"]
            answer = "ABCD".index(row["correct_answer"])
            question = {"question": row["question"], "choices": choices, "answer": answer, "subject": row["topic"]}
            stream.write(json.dumps(question) + "\n")
    return folder


@pytest.mark.long
def test_a_small_model_is_blind_on_letters_and_that_decides_nothing(tmp_path: Path) -> None:
    assert MODEL.is_dir(), f"no {MODEL}: run make setup"
    limits = QuantizationLimits(tasks=("mmlu",), task_folder=Path("tasks"), questions=100)
    context = tree_context(MODEL, limits, scratch=tmp_path)
    folder = vendored(tmp_path / "tasks")
    asked = prepare(
        ("mmlu",),
        task_folder=folder,
        cache=context.cache,
        progress=SILENT,
        time_limit_s=120,
        memory_limit_bytes=4 << 30,
    )
    assert asked.available == 14_042
    observation = CHECK.run(replace(context, baseline=context.source))
    (undecided,) = observation.undecided
    assert "of 100 questions" in undecided.reason
    assert undecided.remedy is not None
    assert "modelctl_easy" in undecided.remedy
    assert observation.findings == ()
