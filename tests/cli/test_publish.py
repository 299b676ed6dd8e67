"""`publish`, `pull` and `list` as a person runs them, on a real repository and a real S3 server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from modelctl.admission.admit import Admission
from modelctl.admission.policy import load_policy
from modelctl.admission.report import Verdict
from modelctl.admission.subject import Subject
from modelctl.cli.admit import _staged
from modelctl.cli.main import run
from modelctl.model.tree import scan_tree
from modelctl.progress import SILENT
from modelctl.registry.staged import stage, staged_areas
from modelctl.registry.store import ObjectStore
from modelctl.services.process import running
from modelctl.services.s3 import embedded_s3, s3_folder, s3_server
from tests.support.command import modelctl
from tests.support.publication import Proposal, propose
from tests.support.reports import a_report

MODEL = {"config.json": b"{}\n", "model.safetensors": b"\0" * 5000}


@pytest.fixture
def proposal(tmp_path: Path) -> Proposal:
    made = propose(tmp_path / "repository", files=MODEL)
    (made.root / "modelctl.yaml").write_text("policy: demo\nsigning: {key: key}\n")
    made.git.run("commit", "--quiet", "--all", "--message", "Set the policy")
    made.admit(policy_digest=load_policy("demo", made.root).digest)
    return made


@pytest.fixture
def secret(proposal: Proposal) -> Iterator[str]:
    """The embedded server runs; its secret must be seen nowhere."""
    state = proposal.workspace.state
    with running(s3_server(s3_folder(state))):
        found = embedded_s3(state)
        assert found is not None
        yield found.credentials.secret_key


@pytest.mark.services
def test_an_admission_of_a_published_release_says_whether_it_serves_these_bytes(
    proposal: Proposal, secret: str
) -> None:
    published = modelctl("publish", "tiny@1.0.0", "--report", proposal.report, cwd=proposal.root)
    assert published.returncode == 0, published.stderr
    same = modelctl("admit", "tiny@1.0.0", "--check", "code", cwd=proposal.root)
    assert same.returncode == 0, same.stderr
    assert "tiny@1.0.0 is published already, with the bytes that were judged here" in " ".join(same.stdout.split())
    assert "next: modelctl publish" not in same.stdout
    (proposal.root / "model" / "config.json").write_text('{"a": 1}')
    other = modelctl("admit", "tiny@1.0.0", "--check", "code", cwd=proposal.root)
    words = " ".join(other.stdout.split())
    assert "is published already, with other bytes" in words
    assert "modelctl pull tiny@1.0.0 brings those that are served" in words


@pytest.mark.services
def test_from_proposed_to_pulled(proposal: Proposal, secret: str, tmp_path: Path) -> None:
    said: list[str] = []

    def said_by(*arguments: str | Path) -> str:
        done = modelctl(*arguments, cwd=proposal.root)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout + done.stderr)
        return done.stdout

    assert "proposed" in said_by("list")
    plan = said_by("publish", "tiny@1.0.0", "--report", proposal.report, "--dry-run")
    assert "nothing was written" in plan
    assert "5.0 kB to send" in plan
    assert f"next: modelctl publish tiny@1.0.0 --report {proposal.report}" in plan
    first = said_by("publish", "tiny@1.0.0", "--report", proposal.report)
    assert "tiny@1.0.0: published" in first
    assert "next: git push --follow-tags" in first
    again = json.loads(said_by("publish", "tiny@1.0.0", "--report", proposal.report, "--json", "-"))
    assert again["published_before"] is True
    assert again["commit"] == proposal.git.head()
    assert [file["action"] for file in again["files"]] == ["keep", "keep"]
    assert "verified against the record in git" in said_by("pull", "tiny@1.0.0", tmp_path / "pulled")
    assert scan_tree(tmp_path / "pulled").digest == again["served_digest"]
    [row] = json.loads(said_by("list", "--json"))
    assert (row["release"], row["state"], row["served_digest"]) == ("tiny@1.0.0", "published", again["served_digest"])
    assert "published" in said_by("list", "tiny")
    assert secret not in "".join(said)
    assert secret not in "".join(path.read_text() for path in proposal.folder.iterdir())


@pytest.mark.services
def test_the_evidence_that_admit_kept_is_found(proposal: Proposal, secret: str) -> None:
    kept = proposal.workspace.state / "evidence" / "tiny" / "1.0.0" / "report.json"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(proposal.report.read_bytes())
    done = modelctl("publish", "tiny@1.0.0", cwd=proposal.root)
    assert done.returncode == 0, done.stderr


@pytest.mark.services
def test_a_quantised_tree_comes_from_staging(proposal: Proposal, secret: str) -> None:
    made = proposal.workspace.state / "staging" / "made"
    made.mkdir(parents=True)
    (made / "config.json").write_text("{}")
    digest = scan_tree(made).digest
    made.rename(made.with_name(digest.removeprefix("sha256:")))
    report = json.loads(proposal.report.read_text())
    report["model"]["served_digest"] = digest
    proposal.report.write_text(json.dumps(report))
    done = modelctl("publish", "tiny@1.0.0", "--report", proposal.report, "--json", "-", cwd=proposal.root)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["served_digest"] == digest
    store = ObjectStore.open(proposal.workspace.settings.store, state=proposal.workspace.state)
    stage(store, scan_tree(made.with_name(digest.removeprefix("sha256:"))))
    assert [area.digest for area in staged_areas(store)] == [digest], store.sizes("")
    made.with_name(digest.removeprefix("sha256:")).joinpath("config.json").unlink()
    made.with_name(digest.removeprefix("sha256:")).rmdir()
    elsewhere = modelctl("publish", "tiny@1.0.0", "--report", proposal.report, cwd=proposal.root)
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert staged_areas(store) == []  # published: no longer wanted
    gone = modelctl("publish", "tiny@1.0.0", "--report", proposal.report, cwd=proposal.root)
    assert gone.returncode == 1
    assert "modelctl admit tiny@1.0.0 makes it again" in gone.stderr


@pytest.mark.services
def test_an_admission_stages_only_what_it_made_and_did_not_refuse(proposal: Proposal, secret: str) -> None:
    done = modelctl("admit", "tiny@1.0.0", "--check", "code", "--stage", cwd=proposal.root)
    assert "nothing to stage: what is served is the source itself" in done.stdout
    store = ObjectStore.open(proposal.workspace.settings.store, state=proposal.workspace.state)
    subject = cast("Subject", None)

    def said(verdict: Verdict) -> str:
        report = a_report(verdict=verdict, served_digest=proposal.tree().digest)
        made = Admission(report=report, subject=subject, served=proposal.tree(), evidence_dir=proposal.root)
        return _staged(store, made, SILENT)

    assert said("refused") == "nothing was staged: the model is refused"
    assert staged_areas(store) == []
    assert said("undecided").startswith("the served tree is staged in bucket 'models'")
    assert said("admitted").endswith(", since an earlier run")
    assert [area.digest for area in staged_areas(store)] == [proposal.tree().digest]


def test_what_stands_in_the_way_is_said_with_the_next_command(
    proposal: Proposal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(proposal.root)
    for arguments, code, words in (
        (("publish", "tiny@1.0.0"), 2, "modelctl admit tiny@1.0.0"),
        (("publish", "tiny@9.0.0"), 2, "this registry proposes: tiny@1.0.0"),
        (("publish", "tiny"), 2, "NAME@VERSION"),
        (("publish", "tiny@1.0.0", "--report", str(proposal.report)), 2, "modelctl services up"),
        (("pull", "tiny@1.0.0", str(tmp_path / "x")), 2, "modelctl services up"),
        (("pull", "tiny", str(tmp_path / "x")), 2, "NAME@VERSION"),
        (("list", "other"), 0, "no release of other"),
        (("list", "--env", "prod"), 0, "prod serves no release; no environment serves anything"),
        (("show", "tinny"), 2, "did you mean tiny?"),
        (("diff", "model", "tinny"), 2, "'tinny' is neither a folder nor NAME@VERSION"),
    ):
        assert run(arguments) == code
        assert words in capsys.readouterr().err
    assert run(("list", "other", "--json")) == 0
    assert json.loads(capsys.readouterr().out) == []
