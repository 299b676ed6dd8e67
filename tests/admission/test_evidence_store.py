"""Evidence that comes back from a real S3 server is the folder that a runner left, and is judged like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.admission.evidence_store import evidence_prefix, fetch_evidence, send_evidence
from modelctl.admission.policy import load_policy
from modelctl.admission.report import Report
from modelctl.errors import InputError
from modelctl.model.s3_client import S3Client
from modelctl.model.tree import hash_file
from modelctl.services.process import Running
from tests.admission.test_gate import FILE, POLICY, RELEASE
from tests.support.command import modelctl
from tests.support.evidence import CPU, GPU, checked, leave, runner_report
from tests.support.models import tiny_llama
from tests.support.repos import commit_file, git_repository
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY, a_bucket, a_client, put

pytestmark = pytest.mark.services


@pytest.fixture
def client(rclone: Running) -> S3Client:
    return a_client(rclone.address)


@pytest.fixture
def runners(tmp_path: Path) -> Path:
    """A registry repository with what a CPU and a GPU runner left."""
    git = git_repository(tmp_path)
    commit_file(git, "policies/ours.yaml", POLICY)
    commit_file(git, "modelctl.yaml", "policy: ours\n")
    commit_file(git, FILE, RELEASE)
    policy = load_policy("ours", tmp_path)
    for name, checks in (("cpu", CPU), ("gpu", GPU)):
        made = [checked(check, policy) for check in checks]
        leave(tmp_path / name, runner_report(made, policy, release_sha256=hash_file(tmp_path / FILE)))
    return tmp_path


def report_of(folder: Path) -> Report:
    return Report.from_json((folder / "report.json").read_text(), origin="report.json")


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_sent_comes_back_as_it_was(client: S3Client, runners: Path, tmp_path: Path) -> None:
    uri = f"s3://{a_bucket(client)}/run-7/gpu"
    (runners / "gpu" / "left-over.log").write_text("of an earlier run")
    assert send_evidence(runners / "gpu", report_of(runners / "gpu"), uri, client) == len(GPU) + 1
    (runners / "gpu" / "left-over.log").unlink()
    assert files_of(fetch_evidence(uri, client, tmp_path / "store")) == files_of(runners / "gpu")


def test_a_run_that_has_not_ended_is_no_evidence(client: S3Client, tmp_path: Path) -> None:
    bucket = a_bucket(client)
    put(client, bucket, "run-7/gpu/concurrency/rows.jsonl", b"rows\n")
    with pytest.raises(InputError, match=r"no report\.json: the run there has not ended"):
        fetch_evidence(f"s3://{bucket}/run-7/gpu", client, tmp_path)


def test_an_object_that_would_leave_the_folder_is_refused(client: S3Client, tmp_path: Path) -> None:
    bucket = a_bucket(client)
    put(client, bucket, "run-7/report.json", b"{}")
    put(client, bucket, "run-7/a:b", b"{}")
    with pytest.raises(InputError, match="leads elsewhere"):
        fetch_evidence(f"s3://{bucket}/run-7", client, tmp_path)


@pytest.mark.parametrize("uri", ["s3://bucket", "s3://bucket/", "s3:///run"])
def test_a_whole_bucket_is_no_runners_place(uri: str) -> None:
    with pytest.raises(InputError):
        evidence_prefix(uri)


@pytest.mark.slow
def test_the_gate_merges_a_folder_and_a_prefix_and_holds_what_was_changed_there(
    client: S3Client, runners: Path
) -> None:
    bucket = a_bucket(client)
    uri = f"s3://{bucket}/run-7/gpu"
    send_evidence(runners / "gpu", report_of(runners / "gpu"), uri, client)
    keys = {
        "MODELCTL_STORE_ENDPOINT": client.endpoint, "MODELCTL_STORE_ACCESS_KEY": ACCESS_KEY,
        "MODELCTL_STORE_SECRET_KEY": SECRET_KEY,
    }  # fmt: skip
    command = ("gate", "cpu", uri, "--release", FILE, "--json", "-")
    done = modelctl(*command, cwd=runners, env=keys)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "admitted"
    put(client, bucket, "run-7/gpu/concurrency/rows.jsonl", b"other rows\n")
    done = modelctl(*command, cwd=runners, env=keys)
    assert done.returncode == 1, done.stderr
    assert any("is not the file that the report lists" in reason for reason in json.loads(done.stdout)["reasons"])
    gone = modelctl("gate", "cpu", f"s3://{bucket}/run-8/gpu", "--release", FILE, cwd=runners, env=keys)
    assert gone.returncode == 2
    assert "no object of" in gone.stderr


@pytest.mark.slow
def test_admit_leaves_its_evidence_at_a_prefix(client: S3Client, tmp_path: Path) -> None:
    tiny_llama(tmp_path / "model")
    bucket = a_bucket(client)
    keys = {
        "MODELCTL_STORE_ENDPOINT": client.endpoint, "MODELCTL_STORE_ACCESS_KEY": ACCESS_KEY,
        "MODELCTL_STORE_SECRET_KEY": SECRET_KEY,
    }  # fmt: skip
    command = ("admit", "model", "--policy", "demo", "--check", "integrity", "--check", "code", "--evidence-dir")
    done = modelctl(*command, f"s3://{bucket}/run-7/cpu", cwd=tmp_path, env=keys)
    assert f"of evidence are at s3://{bucket}/run-7/cpu" in done.stdout
    folder = fetch_evidence(f"s3://{bucket}/run-7/cpu", client, tmp_path / "store")
    assert {check.id for check in report_of(folder).checks} >= {"integrity", "code"}
    assert modelctl(*command, f"s3://{bucket}", cwd=tmp_path, env=keys).returncode == 2
