"""Where the questions come from: shipped ones need nothing, named ones are fetched first or the reason is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.accuracy.questions import Questions, lent, prepare
from modelctl.accuracy.task_loading import shipped
from modelctl.errors import CannotDecideError
from modelctl.progress import SILENT


def fetch(tasks: tuple[str, ...], cache: Path) -> Questions:
    return prepare(tasks, cache=cache, progress=SILENT, time_limit_s=120, memory_limit_bytes=4 << 30)


def test_shipped_tasks_need_no_network_and_are_named_by_their_bytes(tmp_path: Path) -> None:
    questions = fetch(("modelctl_easy",), tmp_path)
    assert shipped() == {"modelctl_easy"}
    assert questions.available >= 1000
    assert questions.digest.startswith("sha256:")
    assert questions.folder is None
    with lent(questions) as home:
        assert home is None
    assert list(tmp_path.iterdir()) == []


def test_a_child_gets_a_copy_of_what_was_fetched(tmp_path: Path) -> None:
    folder = tmp_path / "fetched"
    folder.mkdir()
    (folder / "data.json").write_text("{}")
    with lent(Questions(tasks=("x",), digest="sha256:x", available=1, folder=folder)) as home:
        assert home is not None
        (home / "data.json").write_text("spoilt")
    assert (folder / "data.json").read_text() == "{}"
    assert not home.exists()


@pytest.mark.slow
def test_questions_that_cannot_be_fetched_leave_nothing_and_say_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody answers there
    with pytest.raises(CannotDecideError, match="the questions of mmlu_anatomy could not be fetched") as caught:
        fetch(("mmlu_anatomy",), tmp_path)
    assert caught.value.remedy is not None
    assert "modelctl_easy ships with modelctl" in caught.value.remedy
    assert list((tmp_path / "questions").iterdir()) == []


def test_fetched_questions_that_changed_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(names: tuple[str, ...], folder: Path, **_: object) -> int:
        folder.mkdir(parents=True)
        (folder / "data.json").write_text(json.dumps(names))
        return 7

    monkeypatch.setattr("modelctl.accuracy.questions._fetch", put)
    questions = fetch(("mmlu_anatomy",), tmp_path)
    assert questions.available == 7
    assert fetch(("mmlu_anatomy",), tmp_path) == questions
    assert questions.folder is not None
    (questions.folder / "data.json").write_text("[]")
    with pytest.raises(CannotDecideError, match="have changed since"):
        fetch(("mmlu_anatomy",), tmp_path)
