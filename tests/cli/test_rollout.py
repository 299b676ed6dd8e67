from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import modelctl
from tests.support.history import Registry, a_registry


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    registry = a_registry(tmp_path / "registry")
    registry.propose()
    registry.publish()
    return registry


def test_a_dry_run_shows_the_diff_on_stdout_and_the_rest_on_stderr(registry: Registry) -> None:
    done = modelctl("rollout", "tiny@1.0.0", "--dry-run", cwd=registry.root)
    assert done.returncode == 0
    assert done.stdout.startswith("--- /dev/null\n+++ b/gitops/environments/prod/tiny/rollout.yaml\n")
    assert "nothing was written" in done.stderr
    assert "10 % asked, 10 % given (1 of 10 pods)" in done.stderr


def test_a_rollout_says_what_comes_next_and_the_same_again_does_nothing(registry: Registry) -> None:
    done = modelctl("rollout", "tiny@1.0.0", "--env", "prod", "--json", "result.json", cwd=registry.root)
    assert done.returncode == 0
    assert "next: git push" in done.stdout
    assert "skips the canary steps" in done.stdout.replace("\n", " ")
    result = json.loads((registry.root / "result.json").read_text(encoding="utf-8"))
    assert result["commit"] == registry.git.head()
    again = modelctl("rollout", "tiny@1.0.0", "--env", "prod", cwd=registry.root)
    assert "nothing to change" in again.stdout
    assert registry.git.head() == result["commit"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tiny@2.0.0",), "tiny@2.0.0 is not published"),
        (("tiny",), "is not NAME@VERSION"),
        (("tiny@1.0.0", "--env", "prd"), "did you mean --env prod?"),
    ],
)
def test_bad_input_is_one_message_with_the_next_step(
    registry: Registry, arguments: tuple[str, ...], words: str
) -> None:
    done = modelctl("rollout", *arguments, cwd=registry.root)
    assert done.returncode == 2
    assert words in done.stderr
    assert "next:" in done.stderr
    assert "Traceback" not in done.stderr
