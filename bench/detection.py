"""Detection and false alarms on the corpus of `tests/corpus`: modelctl beside the maintained scanners, in one go.

modelctl judges under the corpus's policy (`tests/corpus/judge.py`); a hostile repository counts as found only when it
is refused by a rule of the expected family. The others count as having found one by any finding at all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import scanners
from comparison import Row, markdown
from scanners import ROOT, Said, State

OURS = "modelctl"
_STATES: tuple[State, ...] = ("found", "clean", "not scanned", "error")
_SHOWN_MISSES = 20


def rows(folder: Path) -> list[Row]:
    """Print who found what, by kind of input; return what each found of the hostile, and the goal."""
    subprocess.run([sys.executable, "-m", "tests.corpus", str(folder / "corpus")], check=True, cwd=ROOT)
    index = folder / "corpus" / "corpus.json"
    inputs: list[dict[str, Any]] = json.loads(index.read_text(encoding="utf-8"))
    home = folder / "home"
    home.mkdir()
    with ThreadPoolExecutor() as pool:  # none of them is timed
        others = pool.submit(scanners.run_all, index, home)
        said = {OURS: _judge_all(inputs, index)} | dict(others.result())
    print(by_group(inputs, said), by_state(inputs, said), sep="\n\n", end="\n\n")
    hostile = [row["id"] for row in inputs if row["verdict"] == "refuse"]
    benign = [row["id"] for row in inputs if row["verdict"] == "admit"]
    wrong = [key for key in hostile if said[OURS][key].state != "found"]
    wrong += [key for key in benign if said[OURS][key].state != "clean"]
    for key in wrong[:_SHOWN_MISSES]:
        print(f"modelctl is wrong about {key}: {said[OURS][key].state} {said[OURS][key].detail}")
    parameters: dict[str, str | int | float] = {"hostile": len(hostile), "benign": len(benign)}
    found = {tool: _count(of, hostile, "found") for tool, of in said.items()}
    return [
        Row(
            figure="hostile missed, false alarms", ours=len(wrong), beside="all of the corpus", other=len(inputs),
            unit="inputs", at_most=0.0, parameters=parameters,
        ),
        *(
            Row(
                figure="hostile repositories found", ours=found[OURS], beside=tool, other=max(count, 1), unit="inputs",
                parameters=parameters | {"false_alarms": _count(said[tool], benign, "found")},
            )
            for tool, count in found.items()
            if tool != OURS
        ),
    ]  # fmt: skip


def by_group(inputs: Sequence[Mapping[str, Any]], said: Mapping[str, Mapping[str, Said]]) -> str:
    """How many of each group every tool found, as Markdown: the hostile groups, then the benign ones."""
    lines = [("inputs", "", *said)]
    for group in dict.fromkeys(row["group"] for row in inputs):
        keys = [row["id"] for row in inputs if row["group"] == group]
        lines.append((group, str(len(keys)), *(str(_count(of, keys, "found")) for of in said.values())))
    return markdown(lines)


def by_state(inputs: Sequence[Mapping[str, Any]], said: Mapping[str, Mapping[str, Said]]) -> str:
    """What every tool said of all hostile and of all benign inputs."""
    lines = [("tool", *(f"{kind}: {state}" for kind in ("hostile", "benign") for state in _STATES))]
    for tool, of in said.items():
        counts = {
            kind: Counter(of[row["id"]].state for row in inputs if row["verdict"] == kind)
            for kind in ("refuse", "admit")
        }
        lines.append((tool, *(str(counts[kind][state]) for kind in ("refuse", "admit") for state in _STATES)))
    return markdown(lines)


def _count(of: Mapping[str, Said], keys: Sequence[str], state: str) -> int:
    return sum(of[key].state == state for key in keys)


def _judge_all(rows: Sequence[Mapping[str, Any]], index: Path) -> dict[str, Said]:
    command = [sys.executable, "-m", "tests.corpus.judge", str(index)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench: the corpus could not be judged\n{done.stderr[-2000:]}")
    judged = {line["id"]: line for line in map(json.loads, done.stdout.splitlines())}
    return {row["id"]: _said(row, judged[row["id"]]) for row in rows}


def _said(row: Mapping[str, Any], judged: Mapping[str, Any]) -> Said:
    rules, wanted = judged["rules"], tuple(row["rules"])
    detail = ", ".join(rules or judged["undecided"])
    if rules and (not wanted or any(rule.startswith(wanted) for rule in rules)):
        return Said(state="found", detail=detail)
    return Said(state="error" if judged["undecided"] else "clean", detail=detail)
