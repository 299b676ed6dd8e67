"""A pull request on a real repository: the gate job's own shell, with evidence as two runners leave it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelctl.admission.policy import load_policy
from modelctl.admission.report import Report
from modelctl.checks.base import Finding
from modelctl.model.tree import hash_file
from tests.support.evidence import CPU, GPU, checked, leave, runner_report
from tests.support.repos import commit_file, git_repository
from tests.tooling.test_workflows import script

POLICY = """\
apiVersion: modelctl.dev/v1
kind: AdmissionPolicy
metadata: {name: production}
spec: {extends: "modelctl:production", isolation: preferred}
"""
RELEASE = """\
apiVersion: modelctl.dev/v1
kind: ModelRelease
metadata: {name: tiny, version: 1.0.0}
spec: {source: {folder: model}}
"""
FILE = "registry/tiny/1.0.0/release.yaml"
pytestmark = pytest.mark.slow  # each clones repositories and starts commands


class PullRequest:
    """A bare repository with a pull request, and the gate job's checkout of its base."""

    def __init__(self, folder: Path, **changes: str) -> None:
        self.environment: dict[str, str] = {}
        work = git_repository(folder / "work")
        self.base = commit_file(work, "policies/production.yaml", POLICY)
        for path, text in {FILE: RELEASE, **changes}.items():
            self.head = commit_file(work, path, text)
        self.bare, self.clone = folder / "bare.git", folder / "clone"
        self._git("clone", "--quiet", "--bare", str(work.root), str(self.bare))
        self._git("-C", str(self.bare), "update-ref", "refs/pull/7/head", self.head)
        self._git("-C", str(self.bare), "update-ref", "refs/heads/main", self.base)
        self._git("clone", "--quiet", "--branch", "main", str(self.bare), str(self.clone))
        self.run("Take registry/ and nothing else from the pull request")
        self.policy = load_policy("production", self.clone)
        self.work = work.root

    @staticmethod
    def _git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], check=True, capture_output=True)

    def run(self, step: str) -> subprocess.CompletedProcess[str]:
        """One step of the job, as the runner runs it."""
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(self.clone), "NUMBER": "7",
            "BASE": self.base, "HEAD": self.head, "POLICY": "production",
            "EVIDENCE": "", "ACCESS_KEY": "", "SECRET_KEY": "",
            "MATRIX": json.dumps({"include": [{"release": "tiny@1.0.0", "file": FILE, "change": "added"}]}),
            "GITHUB_STEP_SUMMARY": str(self.clone / "summary"), **self.environment,
        }  # fmt: skip
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script("admit.yml", "gate", step)]
        return subprocess.run(command, cwd=self.clone, env=environment, check=False, capture_output=True, text=True)

    def runners(self, change: Callable[[Report], Report] = lambda report: report, *, root: Path | None = None) -> None:
        """What the cpu and the gpu job upload."""
        policy = load_policy("production", root) if root else self.policy
        for name, checks in (("cpu", CPU), ("gpu", GPU)):
            made = [checked(check, policy) for check in checks]
            report = change(runner_report(made, policy, release_sha256=hash_file(self.clone / FILE)))
            leave(self.clone / "artifacts" / f"admission-{name}-0" / "evidence", report)

    def gate(self) -> tuple[int, dict[str, Any]]:
        """The exit code of the merge, and its report."""
        done = self.run("Merge the runners' evidence")
        path = self.clone / "merged" / "0" / "report.json"
        assert path.is_file(), done.stderr
        return done.returncode, json.loads(path.read_text())


def test_a_good_release_is_merged(tmp_path: Path) -> None:
    request = PullRequest(tmp_path)
    request.runners()
    code, report = request.gate()
    assert (code, report["verdict"], report["partial"]) == (0, "admitted", False)
    assert "✅ admitted" in (request.clone / "summary").read_text()
    assert {path.suffix for path in (request.clone / "merged").iterdir() if path.is_file()} == {
        ".md", ".sarif", ".xml", ".html",
    }  # fmt: skip


def test_a_bad_one_is_held(tmp_path: Path) -> None:
    request = PullRequest(tmp_path)

    def found(report: Report) -> Report:
        finding = Finding(rule="malware.signature", message="m", remedy="r", path="x")
        checks = [replace(item, findings=(finding,)) if item.id == "malware" else item for item in report.checks]
        return replace(report, checks=tuple(checks))

    request.runners(found)
    code, report = request.gate()
    assert (code, report["verdict"], report["reasons"]) == (1, "refused", ["malware: 1 finding"])


def test_a_relaxed_policy_is_held(tmp_path: Path) -> None:
    weak = POLICY.replace("preferred", "preferred, checks: {concurrency: {streams: 1}}")
    request = PullRequest(tmp_path, **{"policies/production.yaml": weak})
    request.runners(root=request.work)  # as if the runners had followed it
    code, report = request.gate()
    assert (code, report["verdict"]) == (1, "refused")
    assert any("concurrency.streams was 1, the policy asks 100" in reason for reason in report["reasons"])


def test_replayed_evidence_is_held(tmp_path: Path) -> None:
    request = PullRequest(tmp_path)
    request.runners()
    release = request.clone / FILE
    release.write_text(release.read_text().replace("folder: model", "folder: other"))
    code, report = request.gate()
    assert (code, report["verdict"]) == (1, "refused")
    assert all("it was changed since" in reason for reason in report["reasons"])


@pytest.mark.parametrize("lost", ["admission-cpu-0", "admission-gpu-0"])
def test_a_runner_that_left_nothing_is_no_pass(tmp_path: Path, lost: str) -> None:
    request = PullRequest(tmp_path)
    request.runners()
    (request.clone / "artifacts" / lost).rename(request.clone / "lost")
    code, report = request.gate()
    assert (code, report["verdict"]) == (1, "refused")
    assert "no evidence of" in report["reasons"][0]


def test_no_runner_at_all_is_no_pass(tmp_path: Path) -> None:
    request = PullRequest(tmp_path)
    (request.clone / "artifacts").mkdir()
    assert request.run("Merge the runners' evidence").returncode == 2
