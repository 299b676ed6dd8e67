"""Decisions about a canary at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import modelctl
from tests.support.history import Registry, a_canaried_registry


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return a_canaried_registry(tmp_path / "registry")


def test_promoted_and_rolled_back(registry: Registry) -> None:
    done = modelctl("promote", "tiny", "--reason", "two quiet days", "--json", "-", cwd=registry.root)
    assert done.returncode == 0
    assert json.loads(done.stdout)["stable"] == "tiny@1.1.0"
    assert "prod: tiny@1.1.0 is stable instead of tiny@1.0.0" in done.stderr
    done = modelctl("rollback", "tiny", "--env", "prod", cwd=registry.root)
    assert done.returncode == 0
    assert "prod: tiny@1.0.0 is stable instead of tiny@1.1.0" in done.stdout
    assert "next: git push" in done.stdout


def test_a_dry_run_prints_the_diff_alone_on_stdout(registry: Registry) -> None:
    done = modelctl("abort", "tiny", "--dry-run", cwd=registry.root)
    assert done.returncode == 0
    assert done.stdout.startswith("--- a/gitops/environments/prod/tiny/")
    assert "would be stable" in done.stderr
    assert registry.git.run("status", "--porcelain") == ""


def test_bad_input_says_what_to_do(registry: Registry) -> None:
    done = modelctl("promote", "tiny@1.1.0", cwd=registry.root)
    assert done.returncode == 2
    assert "next: name the model: tiny" in done.stderr
    done = modelctl("abort", "other", "--env", "prod", cwd=registry.root)
    assert done.returncode == 2
    assert "prod does not serve other; it serves tiny@1.1.0" in done.stderr
    done = modelctl("abort", "tiny", "--env", "prad", cwd=registry.root)
    assert (done.returncode, "did you mean --env prod?" in done.stderr) == (2, True)
