"""The whole run: both phases run, an unsteady test is run again alone and named, a failing one fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.tooling.scripts import ROOT, load_script

script = load_script("scripts/run_tests.py")

STEADY = "def test_steady() -> None:\n    pass\n"
FAILING = "def test_failing() -> None:\n    raise AssertionError\n"
UNSTEADY = textwrap.dedent(
    """
    from pathlib import Path

    def test_unsteady() -> None:
        ran = Path("ran")
        ran.write_text((ran.read_text() if ran.exists() else "") + "x")
        assert ran.read_text() == "xx"
    """
)

ELSEWHERE = textwrap.dedent(
    """
    import pytest
    from pathlib import Path

    first = not Path("ran").exists()
    Path("ran").touch()

    @pytest.mark.parametrize("run", ["first" if first else "second"])
    def test_elsewhere(run) -> None:
        assert not first

    def test_beside() -> None:
        assert not first
    """
)
LASTING = textwrap.dedent(
    """
    import time
    from pathlib import Path

    def test_lasting() -> None:
        try:
            Path("begun").touch()
            time.sleep(300)
        finally:
            time.sleep(1)  # a service takes its time to end
            Path("ended").touch()
    """
)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' pytest is bare: it starts quickly, and takes none of this run's options."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def run(root: Path, **files: str) -> int:
    """One phase for each file."""
    root.joinpath("pytest.ini").write_text("[pytest]\n")
    for name, content in files.items():
        root.joinpath(f"test_{name}.py").write_text(content)
    code: int = script.run([script.Phase((f"test_{name}.py",)) for name in files], cwd=root)
    return code


def test_a_test_that_passes_alone_is_named_and_fails_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, unsteady=UNSTEADY, steady=STEADY) == 0
    said = capfd.readouterr().err.splitlines()
    assert said[-1] == (
        "unsteady: test_unsteady.py::test_unsteady failed at first and passed once more, alone; it wants mending"
    )
    assert (tmp_path / "ran").read_text() == "xx"


def test_a_test_that_fails_again_fails_the_run_and_later_phases_are_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, failing=FAILING, unsteady=UNSTEADY) == 1
    said = capfd.readouterr().err
    assert "unsteady: test_failing" not in said
    assert "unsteady: test_unsteady" in said


def test_many_failures_are_not_run_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    many = "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_failing(n): raise AssertionError\n"
    assert run(tmp_path, many=many) == 1
    assert "once more" not in capfd.readouterr().err


def test_what_cannot_be_collected_fails_the_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, broken="import nothing_of_this_name\n") == 2
    assert "once more" not in capfd.readouterr().err


def test_what_failed_and_is_not_found_again_fails_the_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, elsewhere=ELSEWHERE) == 1
    said = capfd.readouterr().err
    assert "unsteady: test_elsewhere.py::test_beside" in said
    assert "unsteady: test_elsewhere.py::test_elsewhere" not in said


def test_ctrl_c_lets_the_tests_end_and_no_phase_follows(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_lasting.py").write_text(LASTING)
    (tmp_path / "test_steady.py").write_text(STEADY)
    program = (
        "import sys, run_tests as script\n"
        "phases = [script.Phase((name,)) for name in ('test_lasting.py', 'test_steady.py')]\n"
        f"sys.exit(script.run(phases, cwd={str(tmp_path)!r}))\n"
    )
    whole = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT / "scripts", stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(whole.pid, signal.SIGINT)
    said, _ = whole.communicate(timeout=60)
    assert whole.returncode == 2
    assert (tmp_path / "ended").exists()
    assert "test_steady" not in said


def test_the_phases_hold_every_test_but_the_long_ones_once() -> None:
    apart, alone = script.phases()
    assert apart.choice[-1] == "not engine and not long"
    assert alone.choice[-1] == "engine and not long"
    assert alone.company == ()
