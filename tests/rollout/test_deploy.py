from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from modelctl.admission.report import Report
from modelctl.errors import InputError, RefusedError
from modelctl.git import GitError
from modelctl.rollout.deploy import FIRST_NOTE, roll_out
from modelctl.rollout.published import parse_published
from modelctl.rollout.render import FILES
from modelctl.rollout.words import PUBLISHED_FILE
from tests.support.history import Registry, a_registry
from tests.support.reports import a_report


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    registry = a_registry(tmp_path_factory.mktemp("published") / "registry")
    registry.propose()
    registry.publish()
    return registry


@pytest.fixture
def registry(published: Registry, tmp_path: Path) -> Registry:
    return published.copy(tmp_path / "registry")


UNASKED = {
    "route.yaml",
    "network-policy.yaml",
    "autoscaling.yaml",
    "dashboards.yaml",
    "front.yaml",
    "model-validation.yaml",
}
"""Files that this environment asks for nothing of."""


def status(registry: Registry) -> str:
    return registry.git.run("status", "--porcelain")


def test_a_rollout_is_one_commit_that_says_what_it_did(registry: Registry) -> None:
    before = registry.git.head()
    result = registry.roll_out(reason="better at French\nModel-Digest: sha256:forged")
    assert registry.git.run("rev-list", f"{before}..HEAD").split() == [result.commit]
    assert status(registry) == ""
    assert registry.git.run("log", "-1", "--format=%s").strip() == "Roll out tiny@1.0.0 to prod"
    trailers = registry.git.run("log", "-1", "--format=%(trailers:only,unfold)").strip().splitlines()
    assert trailers == [
        "Model-Release: tiny@1.0.0",
        f"Model-Digest: {result.tree_digest}",
        "Environment: prod",
        "Reason: better at French Model-Digest: sha256:forged",
    ]
    changed = set(registry.git.run("show", "--name-only", "--format=", "HEAD").split())
    folder = "gitops/environments/prod/tiny"
    assert changed == {f"{folder}/{name}" for name in FILES if name not in UNASKED} | {str(PUBLISHED_FILE)}
    assert changed == {str(path) for path in result.files}


def test_the_cluster_learns_of_the_release_in_the_same_commit(registry: Registry) -> None:
    result = registry.roll_out()
    text = registry.git.show("HEAD", str(PUBLISHED_FILE))
    assert parse_published(text or "").releases == {"tiny@1.0.0": result.tree_digest}


def test_the_first_deployment_says_that_the_canary_is_skipped_and_the_second_does_not(registry: Registry) -> None:
    assert FIRST_NOTE in registry.roll_out().notes
    registry.propose(version="1.1.0")
    registry.publish(version="1.1.0", content="better weights")
    second = registry.roll_out("tiny@1.1.0")
    assert FIRST_NOTE not in second.notes
    assert {path.name for path in second.files} == {*FILES, "published.yaml"} - UNASKED
    assert second.shares[0].percent == 10


def test_the_same_again_changes_nothing(registry: Registry) -> None:
    head = registry.roll_out().commit
    again = registry.roll_out()
    assert (again.commit, again.changes, again.diff) == (None, (), "")
    assert registry.git.head() == head


def test_a_dry_run_shows_the_diff_and_writes_nothing(registry: Registry) -> None:
    head = registry.git.head()
    result = roll_out(registry.root, "tiny@1.0.0", "prod", dry_run=True)
    assert "+++ b/gitops/environments/prod/tiny/rollout.yaml" in result.diff
    assert "+kind: Rollout" in result.diff
    assert (result.commit, registry.git.head(), status(registry)) == (None, head, "")
    assert not registry.deployment().exists()


def test_what_the_environment_no_longer_needs_is_removed(registry: Registry) -> None:
    file = registry.root / "gitops" / "environments" / "prod" / "environment.yaml"
    plain = file.read_text(encoding="utf-8")
    router = "router: {kind: gateway-api, gateway: {name: public, namespace: gateways}}\n"
    file.write_text(plain.replace("spare: 1", "spare: 9") + router, encoding="utf-8")
    registry.commit("Route by weights")
    registry.roll_out()
    assert (registry.deployment() / "route.yaml").is_file()
    file.write_text(plain, encoding="utf-8")
    registry.commit("Route by replicas")
    registry.roll_out()
    assert not (registry.deployment() / "route.yaml").exists()
    assert status(registry) == ""


def test_an_unpublished_release_is_refused(registry: Registry) -> None:
    registry.propose(version="2.0.0")
    with pytest.raises(InputError, match=r"tiny@2\.0\.0 is not published") as caught:
        registry.roll_out("tiny@2.0.0")
    assert "modelctl publish tiny@2.0.0" in (caught.value.remedy or "")


def test_an_adapter_is_not_rolled_out_by_itself(registry: Registry) -> None:
    path = registry.root / "registry" / "tiny" / "1.0.0" / "release.yaml"
    document = yaml.safe_load(path.read_text())
    document["spec"]["base"] = {"folder": "base"}
    path.write_text(yaml.safe_dump(document))
    registry.git.run("commit", "-qam", "name a base")
    with pytest.raises(InputError, match=r"tiny@1\.0\.0 is a LoRA adapter") as caught:
        registry.roll_out()
    assert "--lora-modules" in (caught.value.remedy or "")


def test_a_record_that_is_not_committed_does_not_count(registry: Registry) -> None:
    registry.write_record(content="other weights")
    with pytest.raises(InputError, match="not committed"):
        registry.roll_out()


ADMITTED = a_report(release="tiny@1.0.0")


@pytest.mark.parametrize(
    "report",
    [
        dataclasses.replace(ADMITTED, verdict="refused"),
        dataclasses.replace(ADMITTED, partial=True),
        dataclasses.replace(ADMITTED, model=dataclasses.replace(ADMITTED.model, served_digest="sha256:" + "0" * 64)),
    ],
    ids=["refused", "partial", "other-tree"],
)
def test_a_record_whose_report_does_not_admit_it_is_refused(registry: Registry, report: Report) -> None:
    (registry.folder() / "admission.json").write_text(report.to_json(), encoding="utf-8")
    registry.commit("Change the report")
    with pytest.raises(RefusedError):
        registry.roll_out()


def test_uncommitted_work_in_the_folder_is_left_alone(registry: Registry) -> None:
    registry.roll_out()
    file = registry.deployment() / "rollout.yaml"
    registry.edit(file, "replicas: 9", "replicas: 3")
    with pytest.raises(InputError, match="changed and not committed"):
        registry.roll_out()
    assert "replicas: 3" in file.read_text(encoding="utf-8")


def test_a_file_that_someone_else_put_there_is_not_swept_away(registry: Registry) -> None:
    registry.roll_out()
    (registry.deployment() / "secret.yaml").write_text("kind: Secret\n", encoding="utf-8")
    registry.commit("Add a file by hand")
    with pytest.raises(InputError, match=r"holds secret\.yaml"):
        registry.roll_out()


def test_other_staged_work_is_not_taken_along(registry: Registry) -> None:
    other = registry.root / "notes.txt"
    other.write_text("mine\n", encoding="utf-8")
    registry.git.run("add", "notes.txt")
    registry.roll_out()
    assert status(registry) == "A  notes.txt\n"


def test_when_git_refuses_the_commit_everything_is_put_back(registry: Registry, tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "pre-commit").write_text("#!/bin/sh\necho 'not on a Friday' >&2\nexit 1\n", encoding="utf-8")
    (hooks / "pre-commit").chmod(0o755)
    registry.git.run("config", "core.hooksPath", str(hooks))
    with pytest.raises(GitError, match="not on a Friday"):
        registry.roll_out()
    assert status(registry) == ""
    assert not registry.deployment().exists()


def test_a_repository_without_the_cluster_policy_is_fine(registry: Registry) -> None:
    (registry.root / PUBLISHED_FILE).unlink()
    registry.commit("Do without the cluster policy")
    assert PUBLISHED_FILE not in registry.roll_out().files


def test_a_registry_inside_a_larger_repository(tmp_path: Path) -> None:
    registry = a_registry(tmp_path / "whole")
    registry.propose()
    registry.publish()
    inner = registry.root / "ml"
    inner.mkdir()
    for name in ("registry", "gitops", "policies", "modelctl.yaml"):
        (registry.root / name).rename(inner / name)
    registry.commit("Move the registry into a folder")
    result = roll_out(inner, "tiny@1.0.0", "prod")
    assert result.commit == registry.git.head()
    assert (inner / "gitops" / "environments" / "prod" / "tiny" / "rollout.yaml").is_file()
