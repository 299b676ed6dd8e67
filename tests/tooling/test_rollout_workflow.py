"""`rollout.yml` on a real bare repository: the decision becomes a branch and a pull request, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.history import a_registry
from tests.tooling.test_workflows import run, script

pytestmark = pytest.mark.slow  # clones repositories and starts commands
GH = """\
#!/bin/sh
printf '%s\\n' "$@" >"$HOME/gh-arguments"
cp body.md "$HOME/gh-body"
"""


class Dispatch:
    """A bare registry repository with a published release, and the job's checkout of its main branch."""

    def __init__(self, folder: Path) -> None:
        registry = a_registry(folder / "work")
        registry.propose()
        registry.publish()
        self.folder, self.bare, self.clone = folder, folder / "bare.git", folder / "clone"
        self.git("clone", "--quiet", "--bare", str(registry.root), str(self.bare))
        self.main = self.git("-C", str(self.bare), "rev-parse", "main")
        self.git("clone", "--quiet", str(self.bare), str(self.clone))
        (folder / "bin").mkdir()
        (folder / "bin" / "gh").write_text(GH, encoding="utf-8")
        (folder / "bin" / "gh").chmod(0o755)

    @staticmethod
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()

    def step(self, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
        home = {"HOME": str(self.folder), "GITHUB_OUTPUT": str(self.folder / "output"), "GITHUB_ACTOR": "person"}
        text = f'export PATH="{self.folder}/bin:$PATH"\n' + script("rollout.yml", "propose", name)
        summary = {"GITHUB_STEP_SUMMARY": str(self.folder / "summary"), "ACTOR": "person"}
        return run(text, self.clone, {**home, **summary, **environment})

    def decide(self, action: str, release: str, reason: str = "better at French") -> subprocess.CompletedProcess[str]:
        asked = {"ACTION": action, "RELEASE": release, "ENVIRONMENT": "prod", "REASON": reason}
        return self.step("Write the commit", **asked)

    @property
    def branch(self) -> str:
        return (self.folder / "output").read_text(encoding="utf-8").partition("branch=")[2].strip()

    def open(self) -> subprocess.CompletedProcess[str]:
        return self.step("Push the branch and open the pull request", GH_TOKEN="t", BASE="main", BRANCH=self.branch)


def test_a_rollout_becomes_a_pull_request_and_leaves_the_main_branch_alone(tmp_path: Path) -> None:
    dispatch = Dispatch(tmp_path)
    done = dispatch.decide("rollout", "tiny@1.0.0")
    assert done.returncode == 0, done.stderr
    assert dispatch.branch.startswith("rollout/prod/tiny/1.0.0-")
    opened = dispatch.open()
    assert opened.returncode == 0, opened.stderr
    pushed = dispatch.git("-C", str(dispatch.bare), "rev-parse", dispatch.branch)
    assert dispatch.git("-C", str(dispatch.bare), "rev-parse", f"{pushed}^") == dispatch.main
    assert dispatch.git("-C", str(dispatch.bare), "rev-parse", "main") == dispatch.main
    assert dispatch.git("-C", str(dispatch.bare), "show", "--no-patch", "--format=%an", pushed) == "person"
    listed = dispatch.git("-C", str(dispatch.bare), "ls-tree", "-r", "--name-only", pushed)
    assert "gitops/environments/prod/tiny/rollout.yaml" in listed
    assert "result.json" not in listed
    arguments = (tmp_path / "gh-arguments").read_text(encoding="utf-8").splitlines()
    assert arguments[:6] == ["pr", "create", "--base", "main", "--head", dispatch.branch]
    body = (tmp_path / "gh-body").read_text(encoding="utf-8")
    assert "better at French" in body
    assert "@person" in body


def test_what_is_so_already_opens_no_pull_request(tmp_path: Path) -> None:
    dispatch = Dispatch(tmp_path)
    assert dispatch.decide("rollout", "tiny@1.0.0").returncode == 0
    (tmp_path / "output").unlink()
    again = dispatch.decide("rollout", "tiny@1.0.0")
    assert again.returncode == 0
    assert "nothing to change" in again.stdout
    assert not (tmp_path / "output").exists()


def test_a_release_that_is_not_published_fails_the_job(tmp_path: Path) -> None:
    dispatch = Dispatch(tmp_path)
    assert dispatch.decide("rollout", "tiny@9.0.0").returncode == 2
    assert not (tmp_path / "output").exists()


def test_words_of_a_person_are_words_to_the_shell(tmp_path: Path) -> None:
    dispatch = Dispatch(tmp_path)
    done = dispatch.decide("rollout", "tiny@1.0.0", reason="$(touch owned) `touch owned`; touch owned")
    assert done.returncode == 0, done.stderr
    assert not (dispatch.clone / "owned").exists()
    assert dispatch.decide("services", "up").returncode == 2
