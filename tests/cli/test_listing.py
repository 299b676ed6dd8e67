"""`modelctl list`, `show` and the releases that environments serve."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import modelctl
from tests.support.history import Registry, a_served_registry


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    registry = a_served_registry(tmp_path / "registry")
    registry.propose(version="1.1.0")
    registry.publish(version="1.1.0", content="other")
    registry.roll_out("tiny@1.1.0")
    registry.propose(version="2.0.0")
    return registry


def test_the_registry_at_a_glance(registry: Registry) -> None:
    done = modelctl("list", cwd=registry.root)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["release", "state", "size", "licence", "admitted", "environments"]
    assert lines[1] == ["tiny@1.0.0", "published", "7", "B", "2026-01-02", "prod"]
    assert lines[2] == ["tiny@1.1.0", "published", "5", "B", "2026-01-02", "prod", "(canary)"]
    assert lines[3] == ["tiny@2.0.0", "proposed"]


def test_json_for_programs(registry: Registry) -> None:
    rows = json.loads(modelctl("list", "tiny", "--json", cwd=registry.root).stdout)
    assert [row["release"] for row in rows] == ["tiny@1.0.0", "tiny@1.1.0", "tiny@2.0.0"]
    assert rows[0]["tag"] == "tiny@v1.0.0"
    assert registry.git.run("rev-parse", "--verify", rows[0]["tag"])
    assert rows[1]["environments"] == [{"environment": "prod", "role": "canary"}]
    assert set(rows[2]) == {"release", "name", "version", "state", "license", "environments"}
    only = json.loads(modelctl("list", "--env", "prod", "--json", cwd=registry.root).stdout)
    assert [row["release"] for row in only] == ["tiny@1.0.0", "tiny@1.1.0"]


def test_nothing_to_list_says_what_to_do(registry: Registry) -> None:
    done = modelctl("list", "--env", "staging", cwd=registry.root)
    assert (done.returncode, done.stdout) == (0, "")
    assert "staging serves no release" in done.stderr
