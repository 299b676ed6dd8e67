"""`modelctl init`: what it lays down is accepted by modelctl itself and by the linters of workflows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import modelctl
from tests.tooling.scripts import ROOT

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann", "GIT_COMMITTER_EMAIL": "ann@example.org",
}  # fmt: skip
FULL = (
    "--bucket", "team-models", "--endpoint", "https://minio.example.org", "--environment", "staging",
    "--environment", "prod", "--owner", "@acme/ml", "--repository", "https://git.example.org/acme/models.git",
    "--modelctl-source", "git+https://git.example.org/acme/modelctl@" + "ab" * 20,
)  # fmt: skip


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registry repository for which everything was decided."""
    folder = tmp_path_factory.mktemp("init")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ann", "-f", str(folder / "key")], check=True)
    done = modelctl("init", "models", *FULL, "--signer", "key.pub", cwd=folder, env=IDENTITY)
    assert done.returncode == 0, done.stderr
    assert "next: cd models && modelctl new NAME --from ORG/MODEL" in done.stdout
    return folder / "models"


def test_it_is_a_repository_with_one_commit_of_all_files(team: Path) -> None:
    assert git(team, "log", "--format=%s").splitlines() == ["Lay down the registry repository"]
    assert git(team, "status", "--porcelain") == ""
    files = git(team, "ls-files").splitlines()
    for path in ("README.md", ".github/workflows/admit.yml", ".dvc/config", "policies/allowed_signers",
                 "gitops/environments/staging/environment.yaml", "policies/cluster/policy.yaml"):  # fmt: skip
        assert path in files
    assert "@acme/ml" in (team / ".github" / "CODEOWNERS").read_text(encoding="utf-8")
    assert "endpointurl = https://minio.example.org" in (team / ".dvc" / "config").read_text(encoding="utf-8")
    assert [path for path in files if re.search(r"%[A-Z_]+%", (team / path).read_text(encoding="utf-8"))] == []


def test_modelctl_accepts_it(team: Path) -> None:
    settings = json.loads(modelctl("config", "show", "--json", cwd=team).stdout)
    assert "team-models" in json.dumps(settings)
    for arguments in (("policy", "check"), ("lint", "gitops"), ("list",), ("status",)):
        done = modelctl(*arguments, cwd=team)
        assert done.returncode == 0, done.stdout + done.stderr


def test_its_policies_are_the_packaged_ones_until_the_team_decides(team: Path) -> None:
    explained = modelctl("policy", "explain", "production", cwd=team).stdout
    assert "modelctl:production.yaml" in explained


def test_the_workflows_are_this_projects_own_and_pass_their_linters(team: Path) -> None:
    for name in ("admit.yml", "publish.yml", "rollout.yml"):
        assert (team / ".github/workflows" / name).read_bytes() == (ROOT / ".github/workflows" / name).read_bytes()
    for command in (["actionlint"], ["zizmor", "--offline", "--quiet", "."]):
        program = str(Path(sys.executable).with_name(command[0]))
        done = subprocess.run([program, *command[1:]], cwd=team, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_left_open_is_told(tmp_path: Path) -> None:
    done = modelctl("init", "models", "--yes", "--json", cwd=tmp_path, env=IDENTITY)
    body = json.loads(done.stdout)
    for words in ("store.endpoint", "CODEOWNERS", "allowed_signers", "gitops/bootstrap/settings.yaml"):
        assert any(words in sentence for sentence in body["undecided"]), words
    assert body["commit"]
    assert not (tmp_path / "models" / ".dvc").exists()


def test_nothing_is_overwritten_and_what_is_missing_is_added(team: Path, tmp_path: Path) -> None:
    again = modelctl("init", "models", *FULL, cwd=team.parent, env=IDENTITY)
    assert (again.returncode, again.stdout) == (2, "")
    assert "already there, and nothing is overwritten" in again.stderr
    assert "--missing" in again.stderr
    git(tmp_path, "clone", "--quiet", str(team), "copy")
    (tmp_path / "copy" / "policies" / "demo.yaml").unlink()
    (tmp_path / "copy" / "README.md").write_text("ours\n", encoding="utf-8")
    done = modelctl("init", "copy", *FULL, "--missing", "--json", cwd=tmp_path, env=IDENTITY)
    assert json.loads(done.stdout)["written"] == ["policies/demo.yaml"]
    assert (tmp_path / "copy" / "README.md").read_text(encoding="utf-8") == "ours\n"
    assert git(tmp_path / "copy", "log", "--format=%s").count("\n") == 1


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    done = modelctl("init", "models", "--yes", "--dry-run", cwd=tmp_path, env=IDENTITY)
    assert done.returncode == 0, done.stderr
    assert ".github/workflows/admit.yml" in done.stdout
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bucket", "Models"], "--bucket: found 'Models'"),
        (["--environment", "Prod"], "--environment: found 'Prod'"),
        (["--environment", "prod", "--environment", "prod"], "one is named twice"),
        (["--owner", "the team"], "--owner: found 'the team'"),
        (["--repository", "models"], "--repository: found 'models'"),
        (["--modelctl-source", "modelctl>=1"], "wanted what can't move"),
        (["--modelctl-source", "git+https://me:secret@git.example.org/x@" + "ab" * 20], "it would be in git"),
    ],
)
def test_an_unusable_answer_is_refused(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = modelctl("init", "models", "--yes", *arguments, cwd=tmp_path, env=IDENTITY)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "secret" not in done.stderr
    assert not (tmp_path / "models").exists()


def test_a_private_key_and_a_folder_inside_another_repository_are_refused(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", str(tmp_path / "key")], check=True)
    private = modelctl("init", "models", "--yes", "--signer", "key", cwd=tmp_path, env=IDENTITY)
    assert "a private key, which must never be in git" in private.stderr
    git(tmp_path, "init", "--quiet")
    inside = modelctl("init", "models", "--yes", cwd=tmp_path, env=IDENTITY)
    assert inside.returncode == 2
    assert "lies in the git repository" in inside.stderr
