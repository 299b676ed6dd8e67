"""A service is started until it answers, found again, and ended with all it started."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil
import pytest

from modelctl.errors import CannotDecideError
from modelctl.services.process import Service, find, free_port, running, start, stop


def service(folder: Path, code: str, **more: object) -> Service:
    values: dict[str, object] = {
        "name": "fake",
        "argv": (sys.executable, "-c", code),
        "folder": folder,
        "address": "here",
        "detail": "a test",
        "ready": (folder / "ready").exists,
        "ready_timeout_s": 20.0,
    }
    return Service(**(values | more))  # type: ignore[arg-type]


SERVER = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path("child").write_text(str(child.pid))
pathlib.Path("ready").touch()
time.sleep(600)
"""


def test_it_is_found_and_ended_with_its_children(tmp_path: Path) -> None:
    started = start(service(tmp_path, SERVER))
    try:
        assert find(tmp_path) == started
        assert start(service(tmp_path, "raise SystemExit")) == started
    finally:
        assert stop(tmp_path)
    assert find(tmp_path) is None
    assert not stop(tmp_path)
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 60
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_one_that_dies_says_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(CannotDecideError, match=r"fake ended: .*no database") as caught:
        start(service(tmp_path, "raise SystemExit('no database')"))
    assert caught.value.remedy == f"see {tmp_path / 'service.log'}"
    assert find(tmp_path) is None


def test_one_that_never_answers_is_ended(tmp_path: Path) -> None:
    with pytest.raises(CannotDecideError, match="not ready after 1 s"):
        start(service(tmp_path, "import time; time.sleep(600)", ready_timeout_s=1.0))
    assert not (tmp_path / "service.json").exists()


def test_what_a_killed_one_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    code = (
        "import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); pathlib.Path('run/a').mkdir(); "
        "pathlib.Path('run/a/b').touch(); pathlib.Path('run/ab').touch(); pathlib.Path('run/kept').touch(); "
        "pathlib.Path('ready').touch(); time.sleep(600)"
    )
    (tmp_path / "run").mkdir()
    start(service(tmp_path, code, scratch="run/a*"))
    assert stop(tmp_path, grace_s=0.1)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["kept"]


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotDecideError, match="nonesuch"):
        start(service(tmp_path, "", argv=("/nonesuch",)))


def test_a_with_block_ends_only_what_it_started(tmp_path: Path) -> None:
    with running(service(tmp_path, SERVER)):
        with running(service(tmp_path, SERVER)) as inner:
            pass
        assert find(tmp_path) == inner
    assert find(tmp_path) is None


def test_a_stale_state_file_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "service.json").write_text(
        '{"name": "fake", "pid": 1, "started_at": 1.0, "address": "x", "detail": "y"}'
    )
    assert find(tmp_path) is None
    (tmp_path / "service.json").write_text("not json")
    assert find(tmp_path) is None


def test_free_port_is_free() -> None:
    assert 1024 < free_port() < 65536
