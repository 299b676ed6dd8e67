"""Many folders are shared out among processes, and what they find is the same as one would."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.rollout.lint import run
from modelctl.rollout.lint.folder import folders
from modelctl.rollout.lint.look import look_at


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Two processes' worth of folders; every third holds a fault."""
    for number in range(2 * run.FOLDERS_A_PROCESS):
        folder = tmp_path / f"model-{number}"
        folder.mkdir()
        text = "kind: Service\n" if number % 3 == 0 else "apiVersion: v1\nkind: Service\nmetadata: {name: é}\n"
        (folder / "services.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def test_processes_find_what_one_finds(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    found = run.lint(many)
    alone = look_at(folders(many), base=many)
    assert found.manifests == alone.manifests == 66
    assert sorted(found.faults, key=str) == sorted(alone.faults, key=str)
    assert len(found.faults) == 34
    assert found.folders == 100


@pytest.mark.parametrize("program", ["modelctl.no_such_module", "modelctl.errors"])
def test_a_process_that_says_nothing_costs_no_fault(program: str, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(run, "LOOK", program)
    assert len(run.lint(many).faults) == 34
