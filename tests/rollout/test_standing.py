"""What an environment serves, as git says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.errors import InputError
from modelctl.rollout.standing import served_anywhere, standing_of, standings
from modelctl.rollout.steering import Order, promote
from tests.support.history import Registry, a_served_registry


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return a_served_registry(tmp_path / "registry")


def next_release(registry: Registry, version: str) -> None:
    registry.propose(version=version)
    registry.publish(version=version, content=version)
    registry.roll_out(f"tiny@{version}")


def test_the_first_release_is_stable_at_once(registry: Registry) -> None:
    (found,) = standings(registry.root)
    assert (found.environment, found.stable, found.canary) == ("prod", "tiny@1.0.0", None)


def test_the_next_one_is_the_canary_until_the_manifest_says_that_it_was_promoted(registry: Registry) -> None:
    next_release(registry, "1.1.0")
    (found,) = standings(registry.root)
    assert (found.stable, found.canary) == ("tiny@1.0.0", "tiny@1.1.0")
    promote(registry.root, Order(name="tiny", environment="prod"))
    (found,) = standings(registry.root)
    assert (found.stable, found.canary) == ("tiny@1.1.0", None)
    next_release(registry, "1.2.0")
    (found,) = standings(registry.root)
    assert (found.stable, found.canary) == ("tiny@1.1.0", "tiny@1.2.0")


def test_a_commits_words_alone_promote_nothing(registry: Registry) -> None:
    next_release(registry, "1.1.0")
    words = "Promote tiny@1.1.0\n\nEnvironment: prod\nPromoted: tiny@1.1.0\n"
    registry.git.run("commit", "--allow-empty", "--quiet", "-F-", stdin=words)
    assert standings(registry.root)[0].canary == "tiny@1.1.0"


def test_a_name_that_is_not_served_is_said_with_what_is(registry: Registry) -> None:
    assert standing_of(standings(registry.root), "tiny", "prod").deployed == "tiny@1.0.0"
    with pytest.raises(InputError, match=r"prod does not serve other; it serves tiny@1\.0\.0"):
        standing_of(standings(registry.root), "other", "prod")
    with pytest.raises(InputError, match="it serves nothing"):
        standing_of(standings(registry.root), "tiny", "staging")


def test_a_manifest_with_two_voices_is_an_error(registry: Registry) -> None:
    path = registry.deployment() / "rollout.yaml"
    path.write_text(path.read_text().replace("release: tiny@1.0.0", "release: tiny@9.0.0", 1))
    with pytest.raises(InputError, match="with one voice"):
        standings(registry.root)


def test_every_branch_and_working_tree_counts(registry: Registry, tmp_path: Path) -> None:
    registry.git.run("branch", "old")
    next_release(registry, "1.1.0")
    next_release(registry, "1.2.0")
    found = served_anywhere(registry.root)
    assert found["tiny@1.0.0"] == ("prod (old)", "prod may go back to it (main)")
    assert found["tiny@1.1.0"] == ("prod may go back to it (main)",)
    assert found["tiny@1.2.0"] == ("prod (main)", f"prod (working tree {registry.root})")
    registry.git.run("worktree", "add", "--quiet", str(tmp_path / "tree"), "old")
    path = tmp_path / "tree" / "gitops" / "environments" / "prod" / "tiny" / "rollout.yaml"
    path.write_text(path.read_text().replace("tiny@1.0.0", "tiny@0.9.0"))  # not committed
    assert served_anywhere(registry.root)["tiny@0.9.0"] == (f"prod (working tree {tmp_path / 'tree'})",)


def test_what_was_taken_down_everywhere_is_served_nowhere(registry: Registry) -> None:
    for path in registry.deployment().iterdir():
        path.unlink()
    registry.commit("Take tiny down")
    assert served_anywhere(registry.root) == {}
    assert standings(registry.root) == ()
