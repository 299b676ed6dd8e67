"""`modelctl audit` over 10,000 commits and 2,000 releases, beside the times that were promised."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from comparison import Row, medians, quietly

ROOT = Path(__file__).resolve().parent.parent
MODELCTL = Path(sys.executable).with_name("modelctl")
RELEASES = 2000
REPORT_BYTES = 20_000
"""Added to every report: with them one is as large as a real release's."""
TOLD_S = 2.0
VERIFIED_S = 10.0


def rows(folder: Path, *, rounds: int, releases: int = RELEASES) -> list[Row]:
    """Whole commands, their start included, in a generated repository where every claim agrees: signed reports,
    checkpoints, merges with reviewers, rollouts and promotions, five commits each release."""
    sys.path.insert(0, str(ROOT))
    from tests.support.long_history import long_history

    root = folder / "audited"
    long_history(root, releases, padding=REPORT_BYTES)
    counted = subprocess.run(["git", "-C", root, "rev-list", "--count", "HEAD"], capture_output=True, check=True)
    parameters = {"rounds": rounds, "releases": releases, "commits": int(counted.stdout)}
    begin = time.perf_counter()
    quietly(MODELCTL, "audit", "--verify", cwd=root)()
    first = time.perf_counter() - begin
    times = medians(
        {
            "told": quietly(MODELCTL, "audit", cwd=root),
            "anew": quietly(MODELCTL, "audit", "--fresh", cwd=root),
            "now": quietly(MODELCTL, "audit", "--now", cwd=root),
            "verified": quietly(MODELCTL, "audit", "--verify", cwd=root),
        },
        rounds=rounds,
    )
    shutil.rmtree(root)
    promised = "what was promised"
    return [
        Row(figure="audit", ours=times["told"], beside=promised, other=TOLD_S, at_most=1.0, parameters=parameters),
        Row(figure="audit --fresh", ours=times["anew"], beside="audit", other=times["told"], parameters=parameters),
        Row(figure="audit --now", ours=times["now"], beside="audit", other=times["told"], parameters=parameters),
        Row(figure="audit --verify, nothing new", ours=times["verified"], beside=promised, other=VERIFIED_S,
            at_most=1.0, parameters=parameters),
        Row(figure="audit --verify, the first time", ours=first, beside="a later one", other=times["verified"],
            parameters={**parameters, "rounds": 1}),
    ]  # fmt: skip
