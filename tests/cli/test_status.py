"""What is served, from git; and from a cluster, up to the program that asks it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from modelctl.rollout.cluster import ClusterState, NotRead, cluster_state
from tests.support.command import modelctl
from tests.support.history import Registry, a_canaried_registry, a_registry

PAUSED = {
    "spec": {"template": {"metadata": {"annotations": {"modelctl.dev/release": "tiny@1.0.0"}}}},
    "status": {
        "phase": "Paused",
        "message": "CanaryPauseStep",
        "canary": {"weights": {"canary": {"weight": 10}, "stable": {"weight": 90}}},
    },
}


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return a_canaried_registry(tmp_path / "registry")


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name that prints `answer` and keeps its arguments; a test writes what it says."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "kubectl"
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/arguments\ncat {folder}/words >&2\ncat {folder}/answer\n')
    program.chmod(0o755)
    (folder / "answer").write_text(json.dumps(PAUSED))
    (folder / "words").write_text("")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_stable_and_canary_are_read_from_git(registry: Registry) -> None:
    done = modelctl("status", "--json", "-", cwd=registry.root)
    assert done.returncode == 0
    (row,) = json.loads(done.stdout)
    assert (row["environment"], row["stable"], row["canary"]) == ("prod", "tiny@1.0.0", "tiny@1.1.0")
    assert row["commit"] == registry.git.head()
    assert "tiny@1.1.0" in modelctl("status", cwd=registry.root).stdout


def test_nothing_rolled_out_is_said(tmp_path: Path) -> None:
    registry = a_registry(tmp_path / "registry")
    done = modelctl("status", cwd=registry.root)
    assert (done.returncode, done.stdout) == (0, "nothing is rolled out: modelctl rollout NAME@VERSION --env ENV\n")
    assert modelctl("status", "--env", "nowhere", cwd=registry.root).returncode == 2


def test_the_cluster_is_asked_and_its_lag_is_said(registry: Registry, kubectl: Path) -> None:
    done = modelctl("status", "--context", "prod-eu", cwd=registry.root, env={"PATH": os.environ["PATH"]})
    words = " ".join(done.stdout.split())
    assert "Paused, canary 10 %, CanaryPauseStep" in words
    assert "git deploys tiny@1.1.0 to prod, the cluster has tiny@1.0.0" in words
    assert (
        (kubectl / "arguments")
        .read_text()
        .startswith("--context prod-eu get rollouts.argoproj.io tiny -n models-prod -o json")
    )


def test_every_answer_is_a_state_or_a_reason(kubectl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(cluster_state("tiny", "models"), ClusterState)
    for answer in ("", "[]", "{", '{"spec": 1}', '{"spec": {}}'):
        (kubectl / "answer").write_text(answer)
        assert isinstance(cluster_state("tiny", "models"), NotRead), answer
    (kubectl / "kubectl").write_text("#!/bin/sh\necho 'Error from server (NotFound): no tiny' >&2\nexit 1\n")
    assert str(cluster_state("tiny", "models")) == "not asked: Error from server (NotFound): no tiny"
    monkeypatch.setenv("PATH", "/nowhere")
    assert str(cluster_state("tiny", "models")) == "not asked: kubectl is not installed"
