"""The decisions that the workflows take in shell, run as they stand on real git repositories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.tooling.scripts import ROOT, load_script

check_docs = load_script("scripts/check_docs.py")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = "registry/tiny/1.0.0/release.yaml"


def script(workflow: str, job: str, step: str) -> str:
    """The shell of a named step."""
    document = YAML(typ="safe").load(ROOT / ".github" / "workflows" / workflow)
    return next(item["run"] for item in document["jobs"][job]["steps"] if item.get("name") == step)


def run(text: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a step as the runner does."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # as the composite action leaves it
    environment = {"PATH": path, "HOME": str(folder), **environment}
    return subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)


class Repository:
    """A git repository with a base commit and a pull request, and a clone of it as the runner has it."""

    def __init__(self, folder: Path) -> None:
        self.origin = folder / "origin"
        self.origin.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.email", "person@example.org")
        self.git("config", "user.name", "Person")
        self.write("README.md", "registry\n")
        self.base = self.commit()
        self.clone = folder / "clone"

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.origin), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def write(self, name: str, text: str) -> None:
        path = self.origin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Change")
        return self.git("rev-parse", "HEAD")

    def find(self) -> subprocess.CompletedProcess[str]:
        """Commit what was written as pull request 7, and run the step that finds the releases."""
        head = self.commit()
        self.git("update-ref", "refs/pull/7/head", head)
        self.git("reset", "--quiet", "--hard", self.base)
        subprocess.run(["git", "clone", "--quiet", str(self.origin), str(self.clone)], check=True)
        environment = {"BASE": self.base, "HEAD": head, "NUMBER": "7", "GITHUB_OUTPUT": str(self.clone / "output")}
        text = script("admit.yml", "changed", "Find the releases that are proposed or changed")
        return run(text, self.clone, environment)

    def merged(self) -> subprocess.CompletedProcess[str]:
        """Commit what was written to the main branch, and run the step that finds what is to be published."""
        head = self.commit()
        subprocess.run(["git", "clone", "--quiet", str(self.origin), str(self.clone)], check=True)
        environment = {"BEFORE": self.base, "GITHUB_SHA": head, "GITHUB_OUTPUT": str(self.clone / "output")}
        return run(script("publish.yml", "changed", "Find the releases that were merged"), self.clone, environment)

    @property
    def found(self) -> object:
        """The files that the matrix names; the count agrees with them."""
        lines = (self.clone / "output").read_text(encoding="utf-8").splitlines()
        output = dict(line.split("=", 1) for line in lines)
        found = [item["file"] for item in json.loads(output["matrix"])["include"]]
        assert output["count"] == str(len(found))
        return found


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_the_releases_that_a_pull_request_proposes_are_found(repository: Repository) -> None:
    repository.write(RELEASE, "proposed\n")
    repository.write("README.md", "more\n")
    done = repository.find()
    assert done.returncode == 0, done.stdout + done.stderr
    assert repository.found == [RELEASE]


def test_without_a_release_there_is_nothing_to_admit(repository: Repository) -> None:
    repository.write("README.md", "more\n")
    assert repository.find().returncode == 0
    assert repository.found == []


@pytest.mark.parametrize(
    "name",
    [
        "registry/tiny/1.0.0/admission.json",
        "registry/tiny/release.yaml",
        "registry/tiny/1.0.0/deeper/release.yaml",
        "registry/$(touch owned)/1.0.0/release.yaml",
    ],
)
def test_a_pull_request_brings_release_files_and_nothing_else(repository: Repository, name: str) -> None:
    repository.write(RELEASE, "proposed\n")
    repository.write(name, "forged\n")
    done = repository.find()
    assert done.returncode == 1
    assert "is no registry/<name>/<version>/release.yaml" in done.stderr
    assert not (repository.clone / "output").exists()
    assert not (repository.clone / "owned").exists()


def test_a_symbolic_link_is_refused(repository: Repository) -> None:
    path = repository.origin / RELEASE
    path.parent.mkdir(parents=True)
    path.symlink_to("../../../README.md")
    done = repository.find()
    assert done.returncode == 1
    assert "is a symbolic link" in done.stderr


def test_what_was_merged_is_published_unless_it_has_its_record(repository: Repository) -> None:
    repository.write(RELEASE, "proposed\n")
    repository.write("policies/production.yaml", "changed\n")
    assert repository.merged().returncode == 0
    assert repository.found == [RELEASE]


def test_a_release_that_has_its_record_is_not_published_again(repository: Repository) -> None:
    repository.write("registry/tiny/1.0.0/record.yaml", "published\n")
    repository.base = repository.commit()
    repository.write(RELEASE, "mended\n")
    assert repository.merged().returncode == 0
    assert repository.found == []


@pytest.mark.parametrize(
    ("changed", "count", "cpu", "gpu", "merged", "code"),
    [
        ("success", "1", "success", "success", "success", 0),
        ("success", "0", "skipped", "skipped", "skipped", 0),
        ("success", "1", "success", "skipped", "success", 1),
        ("success", "1", "skipped", "success", "success", 1),
        ("success", "1", "failure", "success", "success", 1),
        ("success", "1", "success", "cancelled", "success", 1),
        ("success", "1", "success", "success", "failure", 1),
        ("success", "1", "success", "success", "skipped", 1),
        ("success", "1", "success", "success", "", 1),
        ("failure", "", "skipped", "skipped", "skipped", 1),
        ("cancelled", "0", "skipped", "skipped", "skipped", 1),
    ],
)
def test_the_gate_passes_only_what_was_decided(
    tmp_path: Path, changed: str, count: str, cpu: str, gpu: str, merged: str, code: int
) -> None:
    environment = {"CHANGED": changed, "COUNT": count, "CPU": cpu, "GPU": gpu, "MERGED": merged}
    assert run(script("admit.yml", "gate", "Decide"), tmp_path, environment).returncode == code


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_the_commands_of_a_workflow_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("\\\n", " ").replace('"$ACTION"', "rollout")
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith(("modelctl ", "make "))]
    assert [problem for line in lines if (problem := check_docs.check_command(line.split("||")[0]))] == []
