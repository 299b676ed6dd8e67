"""This repository is its own first customer: what it holds of a real release is verified again, by the program."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from modelctl.admission.names import SIGNERS_FILE
from modelctl.model.tree import scan_tree
from modelctl.registry.dossier import Dossier, gather
from modelctl.registry.trust import signers_of
from tests.support.command import modelctl
from tests.tooling.scripts import ROOT

NAME, VERSION = "smollm2-135m-instruct", "1.0.0"
RECORD = f"registry/{NAME}/{VERSION}/record.yaml"


@pytest.fixture(scope="module")
def dossier() -> Dossier:
    return gather(ROOT, NAME, VERSION, signers_of(ROOT, ROOT / SIGNERS_FILE))


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_record_report_and_signatures_agree(dossier: Dossier) -> None:
    assert dossier.state == "published"
    claims = {claim.what: claim.state for claim in dossier.claims}
    claims.pop("tag", None)  # a clone may have left tags behind
    assert len(claims) >= 3
    assert set(claims.values()) == {"agrees"}, dossier.claims


def test_all_seven_checks_passed_on_what_is_served(dossier: Dossier) -> None:
    assert dossier.report is not None
    assert dossier.record is not None
    assert dossier.report.model.served_digest == dossier.record.served.tree_digest
    assert {check.outcome for check in dossier.report.checks} == {"passed"}
    assert len(dossier.report.checks) >= 7


@pytest.mark.slow
def test_the_source_is_what_setup_builds_here(dossier: Dossier) -> None:
    assert dossier.record is not None
    assert dossier.release is not None
    folder = dossier.release.spec.source.folder
    assert folder is not None
    assert scan_tree(ROOT / folder).digest == dossier.record.source.tree_digest


def test_the_manifests_serve_the_published_bytes(dossier: Dossier) -> None:
    assert dossier.record is not None
    folder = ROOT / "gitops" / "environments" / "demo" / NAME
    assert dossier.record.served.tree_digest in (folder / "rollout.yaml").read_text(encoding="utf-8")
    done = modelctl("lint", "gitops", cwd=ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_history_agrees_with_itself(dossier: Dossier, tmp_path: Path) -> None:
    assert dossier.record is not None
    if not (ROOT / ".git").exists():
        pytest.skip("this copy of the repository has no history")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(ROOT), str(clone))
    proposed, published = (
        git(clone, "log", "--diff-filter=A", "--format=%H", "--", path)
        for path in (RECORD.replace("record.yaml", "release.yaml"), RECORD)
    )
    shallow = git(ROOT, "rev-parse", "--is-shallow-repository") == "true"
    if proposed == published and not shallow:
        pytest.skip("this copy of the repository has one commit for all that happened")
    tag = f"{NAME}@v{VERSION}"
    if not git(clone, "tag", "--list", tag):
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
        git(clone, *identity, "tag", "-a", "-m", f"{tag}\n\n{dossier.record.served.tree_digest}", tag, published)
    done = modelctl("audit", NAME, "--verify", "--json", "-", cwd=clone)
    if shallow:
        assert done.returncode in (1, 3), done.stdout
        assert "this clone is shallow" in done.stderr
        return
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = {event["kind"] for event in json.loads(done.stdout)["events"]}
    assert {"proposed", "admitted", "published", "rolled-out"} <= kinds
