"""Promote, abort and roll back: one commit each, the manifests of then, and never a guess."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from modelctl.audit.timeline import timeline
from modelctl.audit.verify import verify
from modelctl.errors import InputError, RefusedError
from modelctl.git import Git, GitError
from modelctl.rollout.deploy import roll_out
from modelctl.rollout.standing import standings
from modelctl.rollout.steering import Order, abort, promote, rollback
from tests.support.history import Registry, a_served_registry

ORDER = Order(name="tiny", environment="prod")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """1.0.0 is stable, 1.1.0 its canary."""
    registry = a_served_registry(tmp_path_factory.mktemp("served") / "registry")
    add(registry, "1.1.0")
    return registry


@pytest.fixture
def registry(served: Registry, tmp_path: Path) -> Registry:
    return served.copy(tmp_path / "registry")


def add(registry: Registry, version: str) -> None:
    registry.propose(version=version)
    registry.publish(version=version, content=version)
    registry.roll_out(f"tiny@{version}")


def stands(registry: Registry) -> tuple[str, str | None]:
    (found,) = standings(registry.root)
    return found.stable, found.canary


def folder(registry: Registry) -> dict[str, str]:
    return {path.name: path.read_text() for path in registry.deployment().iterdir()}


def trailers(registry: Registry) -> list[str]:
    return registry.git.run("log", "-1", "--format=%(trailers:only,unfold)").strip().splitlines()


def agrees(registry: Registry) -> bool:
    return verify(registry.root).violations == ()


def test_a_promotion_marks_the_rollout_and_changes_no_pod(registry: Registry) -> None:
    before = folder(registry)
    done = promote(registry.root, Order(name="tiny", environment="prod", reason="no complaint\nEnvironment: forged"))
    assert stands(registry) == ("tiny@1.1.0", None)
    assert (done.stable, done.left) == ("tiny@1.1.0", "tiny@1.0.0")
    after = folder(registry)
    added = set(after.pop("rollout.yaml").splitlines()) - set(before.pop("rollout.yaml").splitlines())
    assert after == before
    assert added == {"    modelctl.dev/promoted: tiny@1.1.0"}
    assert trailers(registry) == [
        "Model-Release: tiny@1.1.0",
        f"Model-Digest: {done.tree_digest}",
        "Environment: prod",
        "Promoted: tiny@1.1.0",
        "Reason: no complaint Environment: forged",
    ]
    assert agrees(registry)
    assert timeline(registry.root)[-1].kind == "promoted"


def test_promoted_twice_is_nothing_to_do_and_a_new_rollout_of_it_keeps_the_mark(registry: Registry) -> None:
    promote(registry.root, ORDER)
    head = registry.git.head()
    assert promote(registry.root, ORDER).changes == ()
    assert roll_out(registry.root, "tiny@1.1.0", "prod").changes == ()
    assert registry.git.head() == head


def test_an_aborted_canary_leaves_the_manifests_of_the_stable_release(registry: Registry) -> None:
    registry.git.run("checkout", "--quiet", "HEAD~3")  # where 1.0.0 was served
    wanted = folder(registry)
    registry.git.run("checkout", "--quiet", "main")
    done = abort(registry.root, Order(name="tiny", environment="prod", reason="wrong language"))
    found = folder(registry)
    assert (done.stable, done.left) == ("tiny@1.0.0", "tiny@1.1.0")
    assert found.pop("rollout.yaml").replace("    modelctl.dev/promoted: tiny@1.0.0\n", "") == wanted.pop(
        "rollout.yaml"
    )
    assert found == wanted
    assert stands(registry) == ("tiny@1.0.0", None)
    assert "Aborted: tiny@1.1.0" in trailers(registry)
    assert agrees(registry)
    last = timeline(registry.root)[-1]
    assert (last.kind, last.release, last.reason) == ("aborted", "tiny@1.1.0", "wrong language")


def test_without_a_canary_there_is_nothing_to_abort(registry: Registry) -> None:
    promote(registry.root, ORDER)
    with pytest.raises(InputError, match=r"no canary of tiny: tiny@1\.1\.0 is stable"):
        abort(registry.root, ORDER)


def test_a_rollback_goes_to_the_last_that_was_not_withdrawn(registry: Registry) -> None:
    abort(registry.root, ORDER)  # 1.1.0
    add(registry, "1.2.0")
    promote(registry.root, ORDER)
    done = rollback(registry.root, ORDER)
    assert (done.stable, done.left) == ("tiny@1.0.0", "tiny@1.2.0")
    assert "Rolled-Back: tiny@1.2.0" in trailers(registry)
    assert timeline(registry.root)[-1].kind == "rolled-back"
    assert agrees(registry)
    with pytest.raises(InputError, match="the only release that prod ever kept"):
        rollback(registry.root, ORDER)
    assert rollback(registry.root, ORDER, to="1.2.0").stable == "tiny@1.2.0"
    assert stands(registry) == ("tiny@1.2.0", None)


def test_a_rollback_while_there_is_a_canary_goes_to_stable(registry: Registry) -> None:
    assert rollback(registry.root, ORDER).stable == "tiny@1.0.0"


def test_a_release_that_never_was_there_is_no_way_back(registry: Registry) -> None:
    registry.propose(version="3.0.0")
    registry.publish(version="3.0.0", content="3")
    with pytest.raises(InputError, match=r"prod never served tiny@3\.0\.0; before tiny@1\.1\.0 it served tiny@1\.0\.0"):
        rollback(registry.root, ORDER, to="3.0.0")
    with pytest.raises(InputError, match=r"serves tiny@1\.1\.0 already"):
        rollback(registry.root, ORDER, to="1.1.0")


def test_an_environment_that_changed_since_is_said(registry: Registry) -> None:
    registry.edit(registry.root / "gitops/environments/prod/environment.yaml", "replicas: ", "replicas: 1")
    registry.commit("More replicas")
    assert "environment.yaml has changed since" in rollback(registry.root, ORDER).notes[0]


def test_a_dry_run_shows_the_diff_and_writes_nothing(registry: Registry) -> None:
    head = registry.git.head()
    done = rollback(registry.root, Order(name="tiny", environment="prod", dry_run=True))
    assert done.commit is None
    assert "-    modelctl.dev/release: tiny@1.1.0\n" in done.diff
    assert (registry.git.head(), registry.git.run("status", "--porcelain")) == (head, "")


def test_bytes_that_are_not_the_recorded_ones_are_not_called_stable(registry: Registry) -> None:
    digest = standings(registry.root)[0].digest or ""
    path = registry.deployment() / "rollout.yaml"
    path.write_text(path.read_text().replace(digest, "sha256:" + "0" * 64))
    registry.commit("Another digest")
    with pytest.raises(RefusedError, match="whose record says"):
        promote(registry.root, ORDER)


def test_what_the_cluster_would_refuse_is_not_put_back(registry: Registry) -> None:
    path = registry.root / "policies/cluster/published.yaml"
    path.write_text("".join(line for line in path.open() if "tiny_1.0.0" not in line))
    registry.commit("Do not let 1.0.0 in any more")
    with pytest.raises(RefusedError, match=r"does not let tiny@1\.0\.0 in any more"):
        rollback(registry.root, ORDER)


@pytest.mark.parametrize("decide", [promote, abort, rollback])
def test_the_second_of_two_people_is_told_to_pull(registry: Registry, tmp_path: Path, decide: object) -> None:
    assert callable(decide)
    shared, other = tmp_path / "shared.git", tmp_path / "other"
    registry.git.run("clone", "--quiet", "--bare", ".", str(shared))
    registry.git.run("remote", "add", "origin", str(shared))
    registry.git.run("fetch", "--quiet", "origin")
    registry.git.run("branch", "--quiet", "--set-upstream-to=origin/main")
    Git(tmp_path).run("clone", "--quiet", str(shared), str(other))
    for option in ("user.name", "user.email"):
        Git(other).run("config", option, registry.git.run("config", option).strip())
    abort(other, ORDER)
    Git(other).run("push", "--quiet")
    with pytest.raises(
        InputError, match=r"somebody else has decided here meanwhile: \w+ .*: Abort tiny@1\.1\.0"
    ) as said:
        decide(registry.root, ORDER)
    assert "git pull" in (said.value.remedy or "")
    registry.git.run("pull", "--quiet", "--ff-only")
    assert stands(registry) == ("tiny@1.0.0", None)


def test_a_remote_that_is_gone_is_said_and_does_not_stop_a_night_shift(registry: Registry, tmp_path: Path) -> None:
    shared = tmp_path / "shared.git"
    registry.git.run("clone", "--quiet", "--bare", ".", str(shared))
    registry.git.run("remote", "add", "origin", str(shared))
    registry.git.run("fetch", "--quiet", "origin")
    registry.git.run("branch", "--quiet", "--set-upstream-to=origin/main")
    shutil.rmtree(shared)
    done = abort(registry.root, ORDER)
    assert done.commit is not None
    assert any("origin could not be asked" in note for note in done.notes)


def test_nothing_half_written_is_left_when_git_refuses(registry: Registry) -> None:
    hook = registry.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    registry.git.run("config", "core.hooksPath", str(hook.parent))
    before = folder(registry)
    for decide in (promote, abort, rollback):
        with pytest.raises(GitError):
            decide(registry.root, ORDER)
        assert folder(registry) == before
        assert registry.git.run("status", "--porcelain") == ""
