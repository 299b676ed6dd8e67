"""Evaluating for real, with a tiny random model: what is answered is kept, a killed run goes on, a folder's tasks are
read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from modelctl.accuracy.evaluate import Results, evaluate
from modelctl.accuracy.questions import Questions, prepare
from modelctl.accuracy.sampling import PORTION
from modelctl.errors import CannotDecideError
from modelctl.isolation import Sandbox
from modelctl.model.tree import scan_tree
from modelctl.progress import SILENT
from tests.support.models import tiny_llama

TASK = """\
task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {name}.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: choices
doc_to_target: answer
metric_list:
  - metric: acc
"""


class Watched:
    """A progress that remembers, and can be made to end the run like Ctrl-C after so many documents."""

    def __init__(self, *, kill_after: float | None = None) -> None:
        self.notes: list[str] = []
        self.done = 0.0
        self._kill_after = kill_after

    @contextmanager
    def task(self, label: str, *, total: float | None, unit: str) -> Iterator[Watched]:
        yield self

    def advance(self, amount: float = 1) -> None:
        self.done += amount
        if self._kill_after is not None and self.done > self._kill_after:
            raise KeyboardInterrupt

    def describe(self, detail: str) -> None:
        pass

    def note(self, message: str) -> None:
        self.notes.append(message)


def questions(cache: Path, tasks: tuple[str, ...] = ("modelctl_easy",), folder: Path | None = None) -> Questions:
    return prepare(
        tasks, task_folder=folder, cache=cache, progress=SILENT, time_limit_s=120, memory_limit_bytes=4 << 30
    )


def run(model: Path, asked: Questions, cache: Path, progress: Watched, *, limit: int) -> Results:
    return evaluate(
        scan_tree(model),
        asked,
        limit=limit,
        seed=0,
        dtype="bfloat16",
        cache=cache,
        sandbox=Sandbox(),
        progress=progress,
        label="answer",
        time_limit_s=300,
        memory_limit_bytes=8 << 30,
    )


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_and_ends_with_the_same_answers(tmp_path: Path) -> None:
    model, cache = tiny_llama(tmp_path / "model"), tmp_path / "cache"
    asked = questions(cache)
    limit = 2 * PORTION + 20
    with pytest.raises(KeyboardInterrupt):
        run(model, asked, cache, Watched(kill_after=PORTION + 10), limit=limit)
    (left,) = (cache / "evaluations").iterdir()
    with left.open("a") as stream:
        stream.write('{"part": 1, "documents": [{"task"')  # cut off in the middle of a line

    resumed = Watched()
    found = run(model, asked, cache, resumed, limit=limit)
    assert resumed.notes == [f"answer: goes on after {PORTION} documents of an earlier run"]
    assert resumed.done == pytest.approx(limit)
    assert len(found.documents) == len({(item.task, item.doc_id) for item in found.documents}) == limit
    assert found.bits_per_byte > 2, "a random model writes nothing well"
    assert {"english", "chinese", "python"} <= {text.name for text in found.texts}

    again = Watched()
    assert run(model, asked, cache, again, limit=limit) == found
    assert again.notes == ["answer: the answers of an earlier run are reused"]
    assert [path.suffix for path in (cache / "evaluations").iterdir()] == [".json"]
    assert run(model, asked, tmp_path / "other", Watched(), limit=limit) == found, "in one go"


@pytest.mark.slow
def test_tasks_of_a_folder_need_no_network_and_go_beside_shipped_ones(tmp_path: Path) -> None:
    model, folder, cache = tiny_llama(tmp_path / "model"), tmp_path / "tasks", tmp_path / "cache"
    folder.mkdir()
    for name in ("ours", "theirs"):
        (folder / f"{name}.yaml").write_text(TASK.format(name=name))
        rows = [
            {
                "question": f"{name} {number}",
                "choices": ["a", "b"],
                "answer": number % 2,
                "subject": f"part {number % 3}",
            }
            for number in range(30)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "both.yaml").write_text("group: both\ntask: [ours, theirs]\n")
    asked = questions(cache, ("both", "modelctl_easy"), folder)
    assert asked.available == 2 * 30 + questions(cache).available, "a group is all of its tasks"
    found = run(model, questions(cache, ("ours",), folder), cache, Watched(), limit=100)
    assert {(item.task, item.subject) for item in found.documents} == {
        ("ours", f"part {number}") for number in range(3)
    }
    assert len(found.documents) == 30

    (folder / "ours.jsonl").write_text((folder / "ours.jsonl").read_text().replace('"answer": 1', '"answer": 0'))
    assert questions(cache, ("ours",), folder).digest != questions(cache, ("theirs",), folder).digest != asked.digest
    with pytest.raises(CannotDecideError, match=r"no task mmlu in .*tasks; it has both, ours, theirs") as caught:
        questions(cache, ("mmlu",), folder)
    assert caught.value.remedy == "mend the task files there, or name other tasks (quantization.tasks)"


def test_a_folder_without_tasks_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotDecideError, match="no folder with lm-eval task files") as caught:
        questions(tmp_path, ("mmlu",), tmp_path / "nowhere")
    assert caught.value.remedy is not None
    assert "relative to the registry repository" in caught.value.remedy
