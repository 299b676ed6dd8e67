"""The merge of several runners: what counts is decided anew, what does not is refused with its reason."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelctl.admission.evidence_signature import SIGNATURE_FILE, sign_evidence
from modelctl.admission.gate import Gated, GateRequest, gate, keep
from modelctl.admission.keys import KeySigner, load_signing_key
from modelctl.admission.policy import LoadedPolicy, load_policy
from modelctl.admission.report import Report
from modelctl.checks.base import Finding, Undecided
from modelctl.errors import InputError
from modelctl.model.tree import hash_file
from modelctl.settings import load_workspace
from tests.support.evidence import CPU, GPU, checked, leave, runner_report, stamp
from tests.support.keys import ssh_key
from tests.support.reports import DIGEST
from tests.support.repos import commit_file, git_repository
from tests.support.waivers import write_waiver

POLICY = """\
apiVersion: modelctl.dev/v1
kind: AdmissionPolicy
metadata: {name: ours}
spec: {extends: production, isolation: preferred}
"""
RELEASE = """\
apiVersion: modelctl.dev/v1
kind: ModelRelease
metadata: {name: tiny, version: 1.0.0}
spec: {source: {folder: model}}
"""
FILE = "registry/tiny/1.0.0/release.yaml"


class Proposal:
    """A registry repository with a proposed release, and what two runners say of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        git = git_repository(root)
        commit_file(git, "policies/ours.yaml", POLICY)
        commit_file(git, "modelctl.yaml", "policy: ours\n")
        commit_file(git, FILE, RELEASE)
        self.policy: LoadedPolicy = load_policy("ours", root)
        self.cpu, self.gpu = self.report(*CPU), self.report(*GPU)

    def report(self, *checks: str) -> Report:
        made = [checked(name, self.policy) for name in checks]
        return runner_report(made, self.policy, release_sha256=hash_file(self.root / FILE))

    def again(self, *, policy: str) -> None:
        """Another policy holds, and both runners ran under it."""
        (self.root / "policies" / "ours.yaml").write_text(policy)
        self.policy = load_policy("ours", self.root)
        self.cpu, self.gpu = self.report(*CPU), self.report(*GPU)

    def change_check(self, name: str, **changes: Any) -> None:
        for side in ("cpu", "gpu"):
            report: Report = getattr(self, side)
            checks = tuple(replace(check, **changes) if check.id == name else check for check in report.checks)
            setattr(self, side, replace(report, checks=checks))

    def leave(self) -> tuple[Path, Path]:
        return leave(self.root / "cpu", self.cpu), leave(self.root / "gpu", self.gpu)

    def gate(self, *folders: Path, **options: Any) -> Gated:
        workspace = load_workspace(self.root, environ={})
        return gate(GateRequest(folders=folders or self.leave(), workspace=workspace, release="tiny@1.0.0", **options))


@pytest.fixture
def proposal(tmp_path: Path) -> Proposal:
    return Proposal(tmp_path)


def test_two_runners_are_merged_and_admitted(proposal: Proposal) -> None:
    report = proposal.gate(policy_ref="main").report
    assert (report.verdict, report.reasons, report.partial) == ("admitted", (), False)
    assert [check.id for check in report.checks] == [*CPU, *GPU, "policy"]
    assert [run.checks for run in report.runs] == [CPU, GPU]
    assert Report.from_json(report.to_json(), origin="it") == report


def _change(**changes: Any) -> Callable[[Proposal], None]:
    def change(proposal: Proposal) -> None:
        proposal.gpu = replace(proposal.gpu, **changes)

    return change


def _model(**changes: Any) -> Callable[[Proposal], None]:
    def change(proposal: Proposal) -> None:
        proposal.gpu = replace(proposal.gpu, model=replace(proposal.gpu.model, **changes))

    return change


def _parameter(check: str, name: str, value: object) -> Callable[[Proposal], None]:
    def change(proposal: Proposal) -> None:
        (figure,) = next(item for item in proposal.gpu.checks if item.id == check).measurements
        weaker = replace(figure, parameters={**figure.parameters, name: value})  # type: ignore[dict-item]
        proposal.change_check(check, measurements=(weaker,))

    return change


def _limit(check: str, name: str, value: object) -> Callable[[Proposal], None]:
    def change(proposal: Proposal) -> None:
        made = next(item for item in proposal.gpu.checks if item.id == check)
        proposal.change_check(check, limits={**made.limits, name: value})

    return change


OTHER = "sha256:" + "cd" * 32


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_model(source_digest=OTHER), "are not of one source_digest"),
        (_model(served_digest=OTHER), "the runners served different trees"),
        (_model(release="large@1.0.0"), "is of large@1.0.0, asked for: tiny@1.0.0"),
        (_model(release_sha256="0" * 64), "it was changed since"),
        (_change(modelctl_version="0.0.1"), "was made by modelctl 0.0.1"),
        (_change(created_at=stamp(hours_ago=200)), "the report is 200 hours old, over the policy's 168"),
        (_change(created_at=stamp(hours_ago=-2)), "which is yet to come"),
        (_change(created_at="yesterday"), "names no time: 'yesterday'"),
        (lambda p: p.change_check("concurrency", started_at=stamp(hours_ago=300)), "concurrency is 300 hours old"),
        (lambda p: p.change_check("concurrency", started_at="2026-01-01T00:00:00"), "names no time"),
        (_parameter("concurrency", "streams", 4), "measured with streams 4, the policy asks at least 100"),
        (_parameter("concurrency", "duration_s", 20), "duration_s 20, the policy asks at least 1800"),
        (_parameter("concurrency", "seed", None), "seed not said, the policy asks exactly 0"),
        (_parameter("quantization", "questions", 100), "questions 100, the policy asks at least 1400"),
        (_parameter("quantization", "tasks", "easy"), 'tasks "easy", the policy asks exactly'),
        (_parameter("quantization", "batch_size", 1), "batch_size 1, the policy asks exactly 32"),
        (_limit("quantization", "dtype", "float16"), 'quantization.dtype was "float16", the policy asks "auto"'),
        (_limit("concurrency", "streams", 4), "concurrency.streams was 4, the policy asks 100"),
        (lambda p: p.change_check("concurrency", limits={}), "does not say which limits it was run under"),
        (lambda p: p.change_check("concurrency", measurements=()), "found nothing without the figure 'requests'"),
        (lambda p: p.change_check("concurrency", measurements=(), outcome="failed"), "without the figure 'requests'"),
        (lambda p: p.change_check("concurrency", id="integrity"), "integrity is in .*cpu and in .*gpu"),
        (lambda p: p.change_check("concurrency", id="own"), "'own', which the policy does not name"),
    ],
)
def test_evidence_that_does_not_count_is_refused(
    proposal: Proposal, spoil: Callable[[Proposal], None], words: str
) -> None:
    import re

    spoil(proposal)
    report = proposal.gate().report
    assert report.verdict == "refused"
    assert report.exit_code == 1
    assert re.search(words, "\n".join(report.reasons)), report.reasons


def test_fewer_questions_than_asked_for_count_when_the_tasks_hold_no_more(proposal: Proposal) -> None:
    _parameter("quantization", "questions", 1100)(proposal)
    proposal.change_check("quantization", warnings=("mmlu holds 1100 questions, fewer than the 1400 asked for",))
    assert proposal.gate().report.verdict == "admitted"


def test_accuracy_counts_only_in_the_type_that_the_policy_demands(proposal: Proposal) -> None:
    _parameter("quantization", "dtype", "float32")(proposal)
    assert proposal.gate().report.verdict == "admitted", "auto leaves it to the machine"
    proposal.again(policy=POLICY.replace("preferred", "preferred, checks: {quantization: {dtype: bfloat16}}"))
    assert proposal.gate().report.verdict == "admitted"
    for measured in ("float32", None):
        _parameter("quantization", "dtype", measured)(proposal)
        report = proposal.gate().report
        assert report.verdict == "refused"
        assert 'the policy asks exactly "bfloat16"' in report.reasons[0]


def test_evidence_of_another_policy_is_refused(proposal: Proposal) -> None:
    proposal.gpu = replace(proposal.gpu, policy=replace(proposal.gpu.policy, digest=OTHER, name="demo"))
    report = proposal.gate().report
    assert report.verdict == "refused"
    assert f"was made under the policy 'demo' ({OTHER}), and 'ours'" in report.reasons[0]


def test_a_pull_request_that_relaxes_the_policy_is_held(proposal: Proposal) -> None:
    proposal.again(policy=POLICY.replace("preferred", "preferred, checks: {concurrency: {streams: 1}}"))
    folders = proposal.leave()
    assert proposal.gate(*folders).report.verdict == "admitted"
    report = proposal.gate(*folders, policy_ref="main").report
    assert report.verdict == "refused"
    assert any("concurrency.streams was 1, the policy asks 100" in reason for reason in report.reasons)
    assert "changes policies/ours.yaml (the policy itself)" in report.policy.notes[0]


@pytest.mark.parametrize("folders", [("cpu",), ("gpu",)])
def test_a_runner_that_was_lost_is_no_pass(proposal: Proposal, folders: tuple[str, ...]) -> None:
    proposal.leave()
    report = proposal.gate(*(proposal.root / name for name in folders)).report
    assert report.verdict == "refused"
    assert "no evidence of" in report.reasons[0]


def test_a_check_that_the_policy_does_not_require_may_be_missing(proposal: Proposal) -> None:
    proposal.again(policy=POLICY.replace("preferred", "preferred, checks: {concurrency: {required: false}}"))
    proposal.gpu = proposal.report("quantization", "long-context")
    report = proposal.gate().report
    assert (report.verdict, report.partial) == ("admitted", False)


@pytest.mark.parametrize("harm", ["change", "remove", "link", "outside"])
def test_raw_evidence_that_is_not_what_the_report_lists(proposal: Proposal, harm: str) -> None:
    cpu, gpu = proposal.leave()
    rows = cpu / "malware" / "rows.jsonl"
    content = rows.read_bytes()
    if harm == "change":
        rows.write_bytes(content.replace(b"rows", b"ROWS"))
    elif harm == "outside":
        path = cpu / "report.json"
        path.write_text(path.read_text().replace("malware/rows.jsonl", "../cpu/malware/rows.jsonl"))
    else:
        rows.unlink()
    if harm == "link":
        (proposal.root / "rows").write_bytes(content)
        rows.symlink_to(proposal.root / "rows")
    report = proposal.gate(cpu, gpu).report
    assert report.verdict == "refused"
    words = {"change": "is not the file", "remove": "is missing", "link": "is missing", "outside": "outside of its"}
    assert words[harm] in report.reasons[0]


def test_what_a_runner_concluded_is_not_taken_over(proposal: Proposal) -> None:
    finding = Finding(rule="malware.signature", message="m", remedy="r", path="x")
    proposal.change_check("malware", findings=(finding,))
    report = proposal.gate().report
    assert (report.verdict, report.reasons) == ("refused", ("malware: 1 finding",))
    proposal.change_check("malware", findings=(), undecided=(Undecided(reason="clamd is gone"),))
    report = proposal.gate().report
    assert (report.verdict, report.exit_code) == ("undecided", 3)
    proposal.change_check("malware", undecided=(), coverage=(), measurements=())
    assert proposal.gate().report.verdict == "undecided"


def test_waivers_are_those_that_hold_now(proposal: Proposal) -> None:
    finding = Finding(rule="code.remote-code", message="m", remedy="r", path="config.json")
    proposal.change_check("code", findings=(finding,))
    folders = proposal.leave()
    assert proposal.gate(*folders).report.verdict == "refused"
    write_waiver(proposal.root, digest=DIGEST)
    report = proposal.gate(*folders).report
    assert report.verdict == "admitted"
    (waived,) = next(check.waived for check in report.checks if check.id == "code")
    assert (waived.finding, waived.owner) == (finding, "ann@example.org")
    proposal.change_check("code", findings=(), waived=(waived,))
    folders = proposal.leave()
    assert proposal.gate(*folders).report.verdict == "admitted"
    assert proposal.gate(*folders, policy_ref="main").report.verdict == "refused"


def test_a_waiver_waives_nothing_that_could_not_be_decided(proposal: Proposal) -> None:
    finding = Finding(rule="code.remote-code", message="m", remedy="r", path="config.json")
    write_waiver(proposal.root, digest=DIGEST)
    proposal.change_check("code", findings=(finding,), undecided=(Undecided(reason="bandit is gone"),))
    report = proposal.gate().report
    assert (report.verdict, report.reasons) == ("undecided", ("code could not decide",))


class TestSignatures:
    @pytest.fixture
    def signed(self, proposal: Proposal) -> Proposal:
        key = ssh_key(proposal.root / "key")
        public = key.with_suffix(".pub").read_text()
        (proposal.root / "policies" / "allowed_signers").write_text(f"runner {public}")
        proposal.again(policy=POLICY.replace("preferred", "preferred, evidence: {signatures: required}"))
        return proposal

    @staticmethod
    def sign(folder: Path, key: Path) -> None:
        report = Report.from_json((folder / "report.json").read_text(), origin="it")
        (folder / SIGNATURE_FILE).write_text(sign_evidence(report, KeySigner(load_signing_key(key))))

    def test_signatures_of_allowed_keys_count(self, signed: Proposal) -> None:
        folders = signed.leave()
        for folder in folders:
            self.sign(folder, signed.root / "key")
        report = signed.gate(*folders).report
        assert report.verdict == "admitted"
        assert all(str(run.signed_by).startswith("SHA256:") for run in report.runs)

    def test_without_one_the_evidence_is_refused(self, signed: Proposal) -> None:
        cpu, gpu = signed.leave()
        self.sign(cpu, signed.root / "key")
        report = signed.gate(cpu, gpu).report
        assert report.reasons[0].endswith("the policy requires signatures (modelctl admit … --sign)")
        assert len(report.reasons) == 1

    def test_another_key_and_another_report_are_refused(self, signed: Proposal) -> None:
        cpu, gpu = signed.leave()
        self.sign(cpu, ssh_key(signed.root / "stranger"))
        self.sign(gpu, signed.root / "key")
        (gpu / "report.json").write_text((gpu / "report.json").read_text().replace('"cpus": 2', '"cpus": 4'))
        reasons = signed.gate(cpu, gpu).report.reasons
        assert "no allowed key has signed report.sig.json" in reasons[0]
        assert "is of another report" in reasons[1]

    def test_a_signature_that_is_there_must_hold_even_where_none_is_asked_for(self, proposal: Proposal) -> None:
        cpu, gpu = proposal.leave()
        (cpu / SIGNATURE_FILE).write_text("{}")
        assert "not a DSSE envelope" in proposal.gate(cpu, gpu).report.reasons[0]


def test_everything_is_put_into_one_folder(proposal: Proposal) -> None:
    gated = proposal.gate()
    path = keep(gated, proposal.root / "all")
    merged = Report.from_json(path.read_text(), origin="it")
    assert merged == gated.report
    for check in merged.checks:
        for item in check.evidence:
            assert hash_file(proposal.root / "all" / item.path) == item.sha256


def test_a_runners_own_folder_is_not_overwritten(proposal: Proposal) -> None:
    with pytest.raises(InputError, match="a runner's own evidence"):
        keep(proposal.gate(), proposal.root / "cpu")


def test_a_folder_without_a_report(proposal: Proposal) -> None:
    cpu, _ = proposal.leave()
    with pytest.raises(InputError, match=r"nowhere/report\.json: No such file"):
        proposal.gate(cpu, proposal.root / "nowhere")
    (cpu / "report.json").write_text(json.dumps({"schema_version": "1"}))
    with pytest.raises(InputError, match="not a report"):
        proposal.gate(cpu)


def test_fifty_files_of_evidence_take_under_a_second(proposal: Proposal) -> None:
    folders = []
    for number in range(50):
        name = [*CPU, *GPU][number % 7]
        folders.append(leave(proposal.root / f"runner-{number}", proposal.report(name)))
    proposal.gate(*folders[:7])  # imports
    began = time.process_time()
    report = proposal.gate(*folders).report
    assert time.process_time() - began < 1
    assert report.verdict == "refused"
