from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import modelctl
from tests.support.history import Registry, a_served_registry


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    return a_served_registry(tmp_path_factory.mktemp("audit") / "registry")


def test_the_timeline_is_a_table_of_who_did_what(registry: Registry) -> None:
    done = modelctl("audit", "tiny", cwd=registry.root)
    assert done.returncode == 0
    for words in ("proposed", "admitted", "published", "rolled-out → prod", "Test Person", "tagged"):
        assert words in done.stdout


def test_verified(registry: Registry) -> None:
    done = modelctl("audit", "--verify", cwd=registry.root)
    assert done.returncode == 0
    assert "releases 1, deployments 1, signatures 1" in done.stdout
    assert "every claim agrees" in done.stdout


def test_tampering_is_exit_code_1_and_names_the_commit(registry: Registry, tmp_path: Path) -> None:
    copy = registry.copy(tmp_path / "registry")
    copy.edit(copy.folder() / "record.yaml", "description: folder model", "description: folder modem")
    commit = copy.commit("Fix a typo")
    done = modelctl("audit", "--verify", "--json", "-", cwd=copy.root)
    assert done.returncode == 1
    body = json.loads(done.stdout)
    assert body["verification"]["violations"][0]["rule"] == "audit.record-changed"
    assert body["events"][-1]["kind"] == "record-changed"
    assert f"commit {commit[:12]}" in done.stderr


def test_nothing_found_is_said_and_is_no_verification(registry: Registry) -> None:
    done = modelctl("audit", "no-such-model@1.0.0", "--env", "prod", "--verify", cwd=registry.root)
    assert done.returncode == 3
    assert "no events" in done.stdout


@pytest.mark.parametrize(("arguments", "words"), [(("--since", "yesterday"), "is no date"), (("a@b",), "NAME@VERSION")])
def test_bad_input(registry: Registry, arguments: tuple[str, ...], words: str) -> None:
    done = modelctl("audit", *arguments, cwd=registry.root)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_outside_a_repository(tmp_path: Path) -> None:
    done = modelctl("audit", cwd=tmp_path)
    assert done.returncode == 2
    assert "not in a git repository" in done.stderr
