"""bandit in several processes says what one says, and what it did not look at is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError
from modelctl.isolation import Sandbox
from modelctl.scan import bandit_run
from modelctl.scan.bandit_run import Bandit, run_bandit


def run(folder: Path, sources: list[str | None], *, processes: int) -> Bandit:
    """Over sources as files of a folder; None for a file that is not there."""
    paths = [folder / f"{number:06}.py" for number in range(len(sources))]
    for path, source in zip(paths, sources, strict=True):
        if source is not None:
            path.write_text(source)
    return run_bandit(paths, sandbox=Sandbox(), folder=folder, time_limit_s=60, processes=processes)


@pytest.mark.slow
def test_several_processes_say_what_one_says(tmp_path: Path) -> None:
    sources = ["eval(x)\nexec(y)\n", "x = 1\n", "def f(:\n", None, "import pickle\neval(z)  # nosec\n"]
    one = run(tmp_path, sources, processes=1)
    assert [(issue.unit, issue.line, issue.test) for issue in one.issues] == [
        *((0, 1, "B307"), (0, 2, "B102"), (4, 1, "B403"), (4, 2, "B307"))
    ]
    assert [unit for unit, _ in one.errors] == [2, 3]
    assert run(tmp_path, sources, processes=3) == one


@pytest.mark.slow
def test_a_bandit_that_runs_out_of_memory_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandit_run, "MEMORY_LIMIT_BYTES", 1 << 20)
    with pytest.raises(CannotDecideError, match="memory limit"):
        run(tmp_path, ["x = 1\n"] * 4, processes=2)
