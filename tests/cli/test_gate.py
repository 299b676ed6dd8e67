"""`modelctl policy`, `changed`, `gate` and the reports, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.admission.policy import load_policy
from modelctl.model.tree import hash_file
from tests.admission.test_gate import FILE, POLICY, RELEASE
from tests.support.command import modelctl
from tests.support.engine import FaultEngine
from tests.support.evidence import CPU, GPU, checked, leave, runner_report
from tests.support.keys import ssh_key
from tests.support.models import tiny_llama
from tests.support.repos import commit_file, git_repository
from tests.support.waivers import write_waiver

pytestmark = pytest.mark.slow  # several commands each


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git = git_repository(tmp_path)
    commit_file(git, "policies/ours.yaml", POLICY)
    commit_file(git, "modelctl.yaml", "policy: ours\nsigning: {key: key}\n")
    git.run("checkout", "--quiet", "-b", "proposal")
    commit_file(git, FILE, RELEASE)
    return tmp_path


def test_a_policy_is_shown_checked_and_explained(root: Path) -> None:
    shown = modelctl("policy", "show", "--json", cwd=root)
    body = json.loads(shown.stdout)
    assert body["policy"]["spec"]["checks"]["concurrency"]["streams"] == 100
    assert modelctl("policy", "show", "ours", cwd=root).stdout.startswith("apiVersion: modelctl.dev/v1\n")
    explained = modelctl("policy", "explain", "--no-defaults", cwd=root).stdout
    assert "policies/ours.yaml:4" in explained
    assert "production.yaml:" in explained
    values = json.loads(modelctl("policy", "explain", "--json", cwd=root).stdout)
    assert values["digest"] == body["digest"]
    assert values["values"]["isolation"]["line"] == 4
    assert values["values"]["checks.concurrency.streams"]["meaning"] == "Requests that are kept under way at once."
    assert "Requests that are" in modelctl("policy", "explain", "--meanings", cwd=root).stdout
    checked_ = modelctl("policy", "check", cwd=root)
    assert (checked_.returncode, "ours over production  sha256:" in checked_.stdout) == (0, True)


def test_what_is_wrong_with_the_rules_is_said(root: Path) -> None:
    write_waiver(root, days=-3)
    own = POLICY.replace("ours", "own").replace("preferred", "preferred, own_checks: {absent: {}}")
    (root / "policies" / "own.yaml").write_text(own)
    (root / "policies" / "broken.yaml").write_text("kind: Policy\n")
    (root / "policies" / "allowed_signers").write_text("nobody\n")
    done = modelctl("policy", "check", cwd=root)
    assert done.returncode == 2
    for words in (
        "broken.yaml",
        "own check 'absent' is not installed here",
        "one.yaml: expired on",
        "wanted 'PRINCIPALS",
    ):
        assert words in done.stderr
    assert modelctl("policy", "check", "--policy-ref", "main", cwd=root).returncode == 0


def test_the_releases_of_a_pull_request_are_a_matrix(root: Path) -> None:
    done = modelctl("changed", "--base", "main", cwd=root)
    assert json.loads(done.stdout) == {"include": [{"release": "tiny@1.0.0", "file": FILE, "change": "added"}]}
    assert json.loads(modelctl("changed", "--base", "HEAD", cwd=root).stdout) == {"include": []}
    (root / "registry" / "tiny" / "1.0.0" / "record.yaml").write_text("forged\n")
    git_repository(root).commit([root / "registry"], "Forge", trailers={})
    assert modelctl("changed", "--base", "main", cwd=root).returncode == 1
    assert modelctl("changed", "--base", "nowhere", cwd=root).returncode == 2


def test_the_gate_merges_and_writes_every_format(root: Path) -> None:
    loaded = load_policy("ours", root)
    for name, checks in (("cpu", CPU), ("gpu", GPU)):
        made = [checked(check, loaded) for check in checks]
        leave(root / name, runner_report(made, loaded, release_sha256=hash_file(root / FILE)))
    files = [part for kind in ("sarif", "markdown", "junit", "html") for part in (f"--{kind}", f"out.{kind}")]
    arguments = ("--release", FILE, "--policy-ref", "main", "--evidence-dir", "all", *files)
    done = modelctl("gate", "cpu", "gpu", *arguments, "--json", "-", cwd=root)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((root / "all" / "report.json").read_text())
    assert "ADMITTED" in done.stderr
    assert all((root / f"out.{kind}").stat().st_size > 300 for kind in ("sarif", "markdown", "junit", "html"))
    assert modelctl("gate", "cpu", "--release", FILE, cwd=root).returncode == 1
    assert modelctl("gate", "cpu", "nowhere", "--release", FILE, cwd=root).returncode == 2
    assert modelctl("gate", cwd=root).returncode == 2
    two = modelctl("gate", "cpu", "--json", "-", "--sarif", "-", cwd=root)
    assert (two.returncode, "only one format" in two.stderr) == (2, True)


def test_evidence_is_signed_and_a_waiver_lets_a_release_be_loaded(root: Path) -> None:
    model = tiny_llama(root / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "other/repo--mod.Cls"}}))
    ssh_key(root / "key")
    checks = ("--check", "code", "--check", "tokenizer", "--quiet", "--json", "report.json")
    arguments = ("admit", FILE, *checks, "--evidence-dir", "cpu", "--sign")
    done = modelctl(*arguments, cwd=root)
    report = json.loads((root / "report.json").read_text())
    code, tokenizer = report["checks"]
    assert (done.returncode, code["outcome"], tokenizer["outcome"]) == (1, "failed", "error")
    assert json.loads((root / "cpu" / "report.sig.json").read_text())["signatures"][0]["keyid"].startswith("SHA256:")
    for number, finding in enumerate(code["findings"]):
        digest = report["model"]["source_digest"]
        write_waiver(
            root, f"w{number}", rule=finding["rule"], path=finding["path"], digest=digest, release="tiny@1.0.0"
        )
    done = modelctl(*arguments, cwd=root)
    code, tokenizer = json.loads((root / "report.json").read_text())["checks"]
    assert (done.returncode, code["outcome"], tokenizer["outcome"]) == (0, "passed", "passed"), done.stdout
    assert [item["owner"] for item in code["waived"]] == ["ann@example.org"] * len(code["waived"])
    assert "is waived until" in done.stdout
    refused = modelctl(*arguments, "--policy-ref", "main", cwd=root)
    assert refused.returncode == 1
    assert "adds policies/waivers/w0.yaml (not used)" in refused.stdout
    assert modelctl("admit", FILE, "--check", "malwre", cwd=root).returncode == 2


def test_what_two_real_runners_leave_is_taken(root: Path) -> None:
    small = """\
apiVersion: modelctl.dev/v1
kind: AdmissionPolicy
metadata: {name: ours}
spec:
  extends: demo
  isolation: preferred
  evidence: {signatures: required}
  checks:
    malware: {required: false}
    long-context: {require_computed_kv: false, kv_tolerance: 100}
    concurrency: {streams: 2, duration_s: 2, ramp_s: 1, code_requests: 0}
"""
    git = git_repository(root)
    key = ssh_key(root / "key")
    commit_file(git, "policies/allowed_signers", f"runner {key.with_suffix('.pub').read_text()}")
    commit_file(git, "policies/ours.yaml", small)
    tiny_llama(root / "model")
    rules = ("--policy-ref", "HEAD")
    cpu = [part for name in ("integrity", "code", "tokenizer") for part in ("--check", name)]
    gpu = [part for name in GPU for part in ("--check", name)]
    with FaultEngine(root, max_model_len=2048) as engine:
        done = modelctl("admit", FILE, *rules, *cpu, "--evidence-dir", "cpu", "--sign", "--quiet", cwd=root)
        assert done.returncode == 0, done.stdout
        address = f"unix:{engine.socket}"
        done = modelctl(
            "admit", FILE, *rules, *gpu, "--evidence-dir", "gpu", "--sign", "--quiet", "--endpoint", address, cwd=root
        )
        assert done.returncode == 0, done.stdout
    done = modelctl("gate", "cpu", "gpu", "--release", FILE, *rules, "--json", "merged.json", cwd=root)
    assert done.returncode == 0, done.stdout
    report = json.loads((root / "merged.json").read_text())
    assert [(run["checks"], run["signed_by"][:7]) for run in report["runs"]] == [
        (["integrity", "code", "tokenizer"], "SHA256:"), (list(GPU), "SHA256:"),
    ]  # fmt: skip
    commit_file(git, "policies/ours.yaml", small.replace("streams: 2", "streams: 3"))
    done = modelctl("gate", "cpu", "gpu", "--release", FILE, *rules, cwd=root)
    assert done.returncode == 1
    assert "concurrency was measured with streams 2, the policy asks at least 3" in " ".join(done.stdout.split())
