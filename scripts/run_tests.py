"""Run every test: what needs no engine on one worker more than there are cores, then the engine's, one after another.

A test that fails may have met a busy machine instead of a fault. So a few that failed are run once more with the
machine to themselves; what passes then is named at the end as unsteady, for somebody to mend, and what does not pass
fails the run. Many failures at once are no accident: they are not run again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FEW = 5
FAILED = 1
"""pytest's exit code when tests ran and some failed: the only one after which running them again makes sense."""

INTERRUPTED = 2
"""pytest's exit code after Ctrl-C, and where a file can't be collected, which every phase does."""

GATHERED = ("--cov", "--cov-append")
"""Each run of pytest adds to the coverage of those before it."""


class Phase(NamedTuple):
    """One run of pytest."""

    choice: tuple[str, ...]
    """What is run and how its coverage is judged: options that a second run of the failed ones needs too."""

    company: tuple[str, ...] = ()
    """How the tests share the machine; left out where each has it alone."""


def phases() -> tuple[Phase, Phase]:
    """Whole files a worker, the long ones first, so that none is left over at the end; the engine gets every core."""
    workers = len(os.sched_getaffinity(0)) + 1
    return (
        Phase(
            (*GATHERED, "--cov-report=", "--cov-fail-under=0", "-m", "not engine and not long"),
            (f"--numprocesses={workers}", "--dist=loadfile", "--no-loadscope-reorder"),
        ),
        Phase((*GATHERED, "--cov-report=term", "-m", "engine and not long")),
    )


def run(phases: Sequence[Phase], *, cwd: Path = ROOT) -> int:
    """Run one phase after another, also where tests of an earlier one failed; the first code that is not 0, else 0.

    Ctrl-C is pytest's to answer: it ends the services that its tests started, and no phase follows.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    codes, unsteady = [], []
    try:
        for phase in phases:
            with tempfile.TemporaryDirectory() as cache:
                code, passed_alone = _run_phase(phase, Path(cache), cwd)
            codes.append(code)
            unsteady += passed_alone
            if code == INTERRUPTED:
                break
    finally:
        signal.signal(signal.SIGINT, before)
    for name in unsteady:
        print(f"unsteady: {name} failed at first and passed once more, alone; it wants mending", file=sys.stderr)
    return next((code for code in codes if code), 0)


def _run_phase(phase: Phase, cache: Path, cwd: Path) -> tuple[int, list[str]]:
    """The phase's exit code, and the tests that failed at first and passed alone."""
    pytest = (sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *phase.choice)
    code = subprocess.run((*pytest, *phase.company), cwd=cwd, check=False).returncode
    failed = _last_failed(cache)
    if code != FAILED or not 0 < len(failed) <= FEW:
        return code, []
    print(f"{len(failed)} failed; once more, alone", file=sys.stderr, flush=True)
    alone = ("--last-failed", "--last-failed-no-failures=none")
    code = subprocess.run((*pytest, *alone), cwd=cwd, check=False).returncode
    still = _last_failed(cache)
    return code or (FAILED if still else 0), [name for name in failed if name not in still]


def _last_failed(cache: Path) -> list[str]:
    file = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else []


if __name__ == "__main__":
    subprocess.run((sys.executable, "-m", "coverage", "erase"), cwd=ROOT, check=True)
    sys.exit(run(phases()))
