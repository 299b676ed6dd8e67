"""`make bench` runs and says what it measured; how long anything took is no test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tooling.scripts import ROOT, load_script


def bench(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "bench" / "measure.py"), "--dir", str(tmp_path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_every_figure_has_a_row_and_what_moves_it(tmp_path: Path) -> None:
    report = tmp_path / "figures.json"
    done = bench(
        tmp_path, "--only", "file", "shards", "numbers", "--rounds", "1", "--size-mb", "8", "--json", str(report)
    )
    assert done.returncode in (0, 1), done.stderr
    rows = json.loads(report.read_text())["rows"]
    assert {row["beside"] for row in rows} >= {"sha256sum", "itself on one core", "numpy sum"}
    for row in rows:
        assert row["figure"] in done.stdout
        assert row["parameters"]["size_mib"] == 8
        assert row["ratio"] == row["ours"] / row["other"] > 0
    assert list(tmp_path.iterdir()) == [report]


def test_a_groups_name_stands_for_its_parts() -> None:
    measure = load_script("bench/measure.py")
    choose, parts = measure.choose, measure.GROUPS["load"]
    found = ["start", *parts, "pull"]
    assert choose(found, only=None, without=["load"]) == ["start", "pull"]
    assert choose(found, only=["pull", "load", "load-lag"], without=["load-peers"]) == [
        "pull",
        *(part for part in parts if part != "load-peers"),
    ]


def test_a_part_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = bench(tmp_path, "--only", "hashes")
    assert done.returncode == 1
    assert "no part hashes; there are start, file" in done.stderr
