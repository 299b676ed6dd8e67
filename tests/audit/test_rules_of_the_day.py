"""Publications that break the rules of their day, and history that was rewritten: each is found by its own rule."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from modelctl.admission.keys import KeySigner, load_signing_key
from modelctl.admission.report import CheckReport, Report, WaivedFinding
from modelctl.audit.verify import verify
from modelctl.checks.base import Finding, Measurement
from modelctl.registry.checkpoint import write_checkpoint
from modelctl.registry.names import CHECKPOINT_FILE
from tests.support.history import POLICY, Registry, an_admission
from tests.support.keys import ssh_key

DIGEST = "sha256:" + "0" * 64
SIGNED = POLICY.replace("spec: {", "spec: {history: {commits: signed, tags: signed}, ")
Change = Callable[[Report], Report]


def found(registry: Registry) -> set[str]:
    result = verify(registry.root)
    for violation in result.violations:
        assert violation.remedy
        assert violation.commit
    return {violation.rule.removeprefix("audit.") for violation in result.violations}


def served_digest(content: str = "weights") -> str:
    from modelctl.model.tree import FileEntry, Tree

    sha256 = hashlib.sha256(content.encode()).hexdigest()
    return Tree(root=Path(), files=(FileEntry("model.safetensors", len(content), sha256),)).digest


def publish(
    registry: Registry,
    change: Change = lambda report: report,
    *,
    version: str = "2.0.0",
    before_commit: Callable[[Path], None] = lambda folder: None,
    checkpoint: bool = True,
) -> str:
    """A publication whose signed report, or files, somebody has changed; the commit."""
    registry.propose(version=version)
    release = f"tiny@{version}"
    report = change(an_admission(registry.root, release, served_digest()))
    digest = registry.write_record(version=version, report=report).served.tree_digest
    if checkpoint:
        signer = KeySigner(load_signing_key(registry.root / "key"))
        write_checkpoint(registry.root, release, digest, signer)
    before_commit(registry.folder(version=version))
    commit = registry.commit(f"Publish {release}", Model_Release=release, Model_Digest=digest)
    registry.git.tag(f"tiny@v{version}", f"{release}\n\nModel-Digest: {digest}")
    return commit


def of_check(report: Report, check_id: str, change: Callable[[CheckReport], CheckReport]) -> Report:
    return replace(report, checks=tuple(change(item) if item.id == check_id else item for item in report.checks))


def test_an_honest_second_publication_agrees(registry: Registry) -> None:
    publish(registry)
    result = verify(registry.root)
    assert (result.violations, result.unverified, result.signatures) == ((), (), 2)


def under_another_policy(report: Report) -> Report:
    return replace(report, policy=replace(report.policy, digest=DIGEST))


def under_a_policy_that_nobody_reviewed(report: Report) -> Report:
    return replace(report, policy=replace(report.policy, name="lax", digest=DIGEST))


def with_fewer_streams(report: Report) -> Report:
    def weaken(check: CheckReport) -> CheckReport:
        return replace(check, limits={**check.limits, "streams": 1})

    return of_check(report, "concurrency", weaken)


def with_too_large_a_drop(report: Report) -> Report:
    def add(check: CheckReport) -> CheckReport:
        drop = Measurement(name="accuracy-drop-upper", value=9.0, unit="points")
        return replace(check, measurements=(*check.measurements, drop))

    return of_check(report, "quantization", add)


def without_the_malware_check(report: Report) -> Report:
    return replace(report, checks=tuple(item for item in report.checks if item.id != "malware"))


def with_a_finding_that_was_not_counted(report: Report) -> Report:
    def add(check: CheckReport) -> CheckReport:
        return replace(check, findings=(Finding(rule="code.risky-call", message="os.system", remedy="remove it"),))

    return of_check(report, "code", add)


def with_a_waiver_that_was_never_there(report: Report) -> Report:
    def add(check: CheckReport) -> CheckReport:
        finding = Finding(rule="code.risky-call", message="os.system", remedy="remove it", path="a.py")
        waived = WaivedFinding(
            finding=finding, waiver="policies/waivers/eve.yaml", reason="trust me", owner="eve", approver="mallory",
            expires="2099-01-01",
        )  # fmt: skip
        return replace(check, waived=(waived,))

    return of_check(report, "code", add)


def made_long_ago(report: Report) -> Report:
    return replace(report, created_at="2025-01-02T03:04:05Z")


def of_another_release_file(report: Report) -> Report:
    return replace(report, model=replace(report.model, release_sha256="0" * 64))


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (under_another_policy, {"policy-digest"}),
        (under_a_policy_that_nobody_reviewed, {"policy-unknown"}),
        (with_fewer_streams, {"policy-weaker"}),
        (with_too_large_a_drop, {"policy-figure"}),
        (without_the_malware_check, {"policy-unsatisfied"}),
        (with_a_finding_that_was_not_counted, {"policy-unsatisfied"}),
        (with_a_waiver_that_was_never_there, {"waiver-unfounded", "policy-unsatisfied"}),
        (made_long_ago, {"policy-stale"}),
        (of_another_release_file, {"proposal-changed"}),
    ],
)
def test_a_signed_report_that_the_rules_of_its_day_refuse(registry: Registry, change: Change, rules: set[str]) -> None:
    publish(registry, change)
    assert found(registry) == rules


def test_a_policy_that_came_with_the_publication_does_not_count(registry: Registry) -> None:
    policy = registry.root / "policies" / "demo.yaml"
    relaxed = POLICY.replace("spec: {", "spec: {isolation: preferred, ")

    def relax(report: Report) -> Report:
        policy.write_text(relaxed, encoding="utf-8")
        return an_admission(registry.root, "tiny@2.0.0", report.model.served_digest or "")

    publish(registry, relax)
    assert found(registry) == {"policy-digest"}


def test_a_policy_of_later_judges_nothing_of_before(registry: Registry) -> None:
    policy = registry.root / "policies" / "demo.yaml"
    policy.write_text(POLICY.replace("spec: {", "spec: {sources: [hub], "), encoding="utf-8")
    registry.commit("Allow the Hub alone")
    assert found(registry) == set()


def test_a_report_of_another_version_is_held_to_what_the_policy_wrote(registry: Registry) -> None:
    policy = registry.root / "policies" / "demo.yaml"
    policy.write_text(POLICY.replace("spec: {", "spec: {checks: {concurrency: {streams: 7}}, "), encoding="utf-8")
    registry.commit("Ask for seven streams")

    def older(report: Report) -> Report:
        older = replace(report, modelctl_version="0.0.9", policy=replace(report.policy, digest=DIGEST))
        return of_check(older, "malware", lambda check: replace(check, limits={**check.limits, "time_limit_s": 5}))

    publish(registry, older)
    assert found(registry) == set()
    publish(registry, lambda report: with_fewer_streams(older(report)), version="3.0.0")
    assert found(registry) == {"policy-weaker"}


def forget_the_proposal(folder: Path) -> None:
    (folder / "release.yaml").unlink()


def name_another_signer(folder: Path) -> None:
    import re

    record = folder / "record.yaml"
    text = record.read_text(encoding="utf-8")
    record.write_text(re.sub(r"key_id: \S+", f"key_id: SHA256:{'A' * 43}", text), encoding="utf-8")


def name_an_identity_that_signed_nothing(folder: Path) -> None:
    record = folder / "record.yaml"
    text = record.read_text(encoding="utf-8")
    assert text.count("  identity:\n") == 1
    told = "  identity: ann@example.org (https://accounts.example.org)\n"
    record.write_text(text.replace("  identity:\n", told), encoding="utf-8")


def point_dvc_elsewhere(folder: Path) -> None:
    (folder / "weights.dvc").write_text(f"meta:\n  modelctl:\n    tree_digest: {DIGEST}\n", encoding="utf-8")


def sign_the_checkpoint_with_a_strangers_key(folder: Path) -> None:
    root = folder.parents[2]
    signer = KeySigner(load_signing_key(ssh_key(root / "key-of-a-stranger")))
    write_checkpoint(root, "tiny@2.0.0", served_digest(), signer)


def take_the_checkpoint_of_another_release(folder: Path) -> None:
    (folder / CHECKPOINT_FILE).write_bytes((folder.parent / "1.0.0" / CHECKPOINT_FILE).read_bytes())


def break_the_checkpoint(folder: Path) -> None:
    (folder / CHECKPOINT_FILE).write_text("{}", encoding="utf-8")


@pytest.mark.parametrize(
    ("tamper", "rules"),
    [
        (forget_the_proposal, {"proposal-missing"}),
        (name_another_signer, {"signer-recorded"}),
        (name_an_identity_that_signed_nothing, {"signer-recorded"}),
        (point_dvc_elsewhere, {"digest-pointer"}),
        (sign_the_checkpoint_with_a_strangers_key, {"checkpoint-signature"}),
        (take_the_checkpoint_of_another_release, {"checkpoint-release", "checkpoint-chain"}),
        (break_the_checkpoint, {"checkpoint-signature"}),
    ],
)
def test_a_publication_whose_files_disagree(
    registry: Registry, tamper: Callable[[Path], None], rules: set[str]
) -> None:
    commit = publish(registry, before_commit=tamper)
    assert found(registry) == rules
    assert {item.commit for item in verify(registry.root).violations} == {commit}


def test_a_publication_without_a_checkpoint_after_one_that_had_one(registry: Registry) -> None:
    publish(registry, checkpoint=False)
    assert found(registry) == {"checkpoint-missing"}


def test_rewritten_history_is_found(registry: Registry) -> None:
    """Every commit made anew with other words in the first one, as a push by force would bring it; tags too."""
    root = registry.root
    exported = subprocess.run(
        ["git", "-C", str(root), "fast-export", "--all", "--signed-tags=verbatim"], capture_output=True, check=True
    ).stdout
    forged = exported.replace(b"Lay out the registry\n", b"Lay out the Registry\n")
    assert forged != exported
    subprocess.run(["git", "-C", str(root), "fast-import", "--quiet", "--force"], input=forged, check=True)
    registry.git.run("reset", "--quiet", "--hard", "main")
    assert found(registry) == {"history-rewritten"}


def test_a_publication_that_was_dropped_from_history_is_missed(registry: Registry) -> None:
    publish(registry, version="2.0.0")
    dropped = registry.git.head() or ""
    publish(registry, version="3.0.0")
    registry.git.run("rebase", "--quiet", "--onto", f"{dropped}~1", dropped, "main")
    registry.git.run("tag", "--delete", "tiny@v2.0.0")
    assert found(registry) == {"history-rewritten", "checkpoint-chain"}


def test_pull_requests_leave_the_chain_whole_however_they_are_merged(registry: Registry) -> None:
    git = registry.git
    for how in ("--no-ff", "--squash"):
        git.run("checkout", "--quiet", "-b", f"side{how}")
        registry.propose("other", f"1.0.{len(how)}")
        git.run("checkout", "--quiet", "main")
        git.run("merge", "--quiet", how, *(("--no-edit",) if how == "--no-ff" else ()), f"side{how}")
        if how == "--squash":
            git.run("commit", "--quiet", "--message", "Propose other")
    publish(registry)
    assert found(registry) == set()


def test_a_commit_that_an_auditor_noted_must_still_be_there(registry: Registry) -> None:
    noted = registry.git.head() or ""
    publish(registry)
    assert verify(registry.root, includes=[noted, noted[:12]]).exit_code == 0
    registry.git.run("checkout", "--quiet", "--detach", f"{noted}~1")
    (violation,) = [item for item in verify(registry.root, includes=[noted]).violations if item.release is None
                    and item.rule == "audit.history-rewritten"]  # fmt: skip
    assert violation.commit == noted


def test_a_tag_of_a_release_that_was_never_published(registry: Registry) -> None:
    registry.git.tag("tiny@v9.0.0", "tiny@9.0.0")
    registry.git.tag("a-tag-of-another-kind", "no release")
    assert found(registry) == {"tag-unpublished"}


def test_no_checkpoint_at_all_leaves_it_open(tmp_path: Path) -> None:
    from tests.support.history import a_registry

    registry = a_registry(tmp_path / "registry")
    publish(registry, checkpoint=False)
    result = verify(registry.root)
    assert (result.violations, result.exit_code) == ((), 3)
    assert "whether the history before it was rewritten" in result.unverified[0].reason


def demand_signatures(registry: Registry) -> None:
    (registry.root / "policies" / "demo.yaml").write_text(SIGNED, encoding="utf-8")
    registry.commit("Want signed commits and tags")


def sign_with(registry: Registry, key: Path) -> None:
    for name, value in (
        ("gpg.format", "ssh"), ("user.signingkey", str(key)), ("commit.gpgsign", "true"), ("tag.gpgsign", "true"),
    ):  # fmt: skip
        registry.git.run("config", name, value)


def test_unsigned_commits_and_tags_where_the_policy_wants_them_signed(registry: Registry) -> None:
    demand_signatures(registry)
    publish(registry)
    registry.roll_out("tiny@2.0.0")
    result = verify(registry.root)
    rules = [item.rule for item in result.violations]
    assert sorted(rules) == ["audit.commit-unsigned", "audit.commit-unsigned", "audit.tag-unsigned"]
    assert {item.commit for item in result.violations} == set(
        registry.git.run("rev-list", "--max-count=2", "HEAD").split()
    )


def test_commits_and_tags_that_an_allowed_key_signed(registry: Registry) -> None:
    demand_signatures(registry)
    sign_with(registry, registry.root / "key")
    publish(registry)
    registry.roll_out("tiny@2.0.0")
    assert found(registry) == set()


def test_commits_and_tags_that_a_stranger_signed(registry: Registry) -> None:
    demand_signatures(registry)
    sign_with(registry, ssh_key(registry.root / "key-of-a-stranger"))
    publish(registry)
    assert found(registry) == {"commit-unsigned", "tag-unsigned"}


def test_the_digest_of_a_policy_that_demands_nothing_of_git_is_what_it_was(registry: Registry) -> None:
    from modelctl.admission.policy import load_policy

    assert "history" not in load_policy("demo", registry.root).policy.model_dump_json()
    demand_signatures(registry)
    assert '"history"' in load_policy("demo", registry.root).policy.model_dump_json()
