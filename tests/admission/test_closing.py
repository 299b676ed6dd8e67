"""What the policy says of a release as a whole: source, licence, a team's rules, waivers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelctl.admission.closing import close
from modelctl.admission.policy import LoadedPolicy, Policy
from modelctl.admission.policy_files import FolderFiles
from modelctl.admission.report import CheckReport, LicenseReport, Report
from modelctl.admission.waivers import Waivers, load_waivers
from modelctl.isolation import Sandbox
from tests.support.reports import DIGEST, a_check, a_report
from tests.support.waivers import write_waiver


def loaded(**spec: Any) -> LoadedPolicy:
    document = {
        "apiVersion": "modelctl.dev/v1", "kind": "AdmissionPolicy", "metadata": {"name": "ours"}, "spec": spec,
    }  # fmt: skip
    return LoadedPolicy(Policy.model_validate(document), Path("policies/ours.yaml"))


def draft(license_: LicenseReport | None = None, **changes: Any) -> Report:
    report = a_report(a_check("integrity"), a_check("concurrency"))
    return replace(report, model=replace(report.model, license=license_, **changes))


def closed(report: Report, waivers: Waivers | None = None, **spec: Any) -> Report:
    return close(report, loaded(**spec), waivers or Waivers(), Sandbox())


def policy_check(report: Report) -> CheckReport:
    return report.checks[-1]


def rules(report: Report) -> list[str]:
    return [finding.rule for finding in policy_check(report).findings]


def test_a_whole_report_has_the_policys_own_check(tmp_path: Path) -> None:
    report = closed(draft(source_kind="hub"))
    assert (report.verdict, policy_check(report).id, policy_check(report).outcome) == ("admitted", "policy", "passed")
    part = closed(replace(draft(), partial=True))
    assert [check.id for check in part.checks] == ["integrity", "concurrency"]


def test_a_source_that_is_not_allowed_refuses() -> None:
    report = closed(draft(source_kind="folder"), sources=["hub"])
    assert (report.verdict, rules(report)) == ("refused", ["policy.source"])
    assert "allowed: hub" in policy_check(report).findings[0].message


@pytest.mark.parametrize(
    ("license_", "allowed", "found"),
    [
        (LicenseReport(names=("mit",)), ["MIT"], []),
        (LicenseReport(names=("mit", "gpl-3.0")), ["mit"], ["policy.license"]),
        (LicenseReport(names=()), ["mit"], ["policy.license-missing"]),
        (LicenseReport(names=()), [], []),
        (LicenseReport(names=("gpl-3.0",)), [], []),
        (LicenseReport(names=("mit",), declared="Apache-2.0"), [], ["policy.license-differs"]),
        (LicenseReport(names=("mit",), declared="MIT"), ["mit"], []),
        (LicenseReport(names=(), declared="mit"), ["mit"], ["policy.license-missing"]),
    ],
)
def test_licences(license_: LicenseReport, allowed: list[str], found: list[str]) -> None:
    assert rules(closed(draft(license_), licenses=allowed)) == found


def test_a_card_that_cannot_be_read_decides_nothing_where_licences_count() -> None:
    unreadable = LicenseReport(names=(), problem="README.md:2: an alias")
    assert closed(draft(unreadable)).verdict == "admitted"
    report = closed(draft(unreadable), licenses=["mit"])
    assert (report.verdict, report.reasons) == ("undecided", ("policy could not decide",))


RULES = {
    "true": "report.checks.all(c, c.outcome == 'passed') && report.policy.name == 'demo'",
    "false": "report.model.source.startsWith('s3://')",
    "no-verdict": "has(report.verdict)",
    "no-key": "report.nothing.here == 1",
    "no-bool": "report.model.source",
    "endless": (
        "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, "
        "[1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a + b + c + d + e > 0)))))"
    ),
}


def test_a_teams_rules(tmp_path: Path) -> None:
    written = [{"id": name, "expr": expr, "message": f"{name} it is"} for name, expr in RULES.items()]
    report = closed(draft(), rules=written)
    check = policy_check(report)
    assert report.verdict == "refused"
    assert [(item.rule, item.message) for item in check.findings] == [
        ("policy.rule-false", "false it is"), ("policy.rule-no-verdict", "no-verdict it is"),
    ]  # fmt: skip
    assert RULES["false"] in check.findings[0].remedy
    reasons = [item.reason for item in check.undecided]
    assert reasons[0] == """rule 'no-key' could not be evaluated: Key not found in map : "nothing\""""
    assert reasons[1].startswith("rule 'no-bool' could not be evaluated: gave 'folder")
    assert "budget exceeded" in reasons[2]
    assert check.coverage[0].seen == 1 + len(RULES)


def test_a_rule_that_cannot_be_evaluated_has_decided_nothing() -> None:
    report = closed(draft(), rules=[{"id": "no-key", "expr": RULES["no-key"], "message": "m"}])
    assert (report.verdict, report.reasons) == ("undecided", ("policy could not decide",))


def test_a_policys_finding_can_be_waived_and_a_waiver_too_many_is_a_finding(tmp_path: Path) -> None:
    write_waiver(tmp_path, rule="policy.source", path=None, days=5)
    write_waiver(tmp_path, "two", rule="integrity.hash")
    waivers = Waivers(waivers=load_waivers(FolderFiles(tmp_path)))
    report = closed(draft(source_kind="folder"), waivers, sources=["hub"])
    check = policy_check(report)
    assert [item.finding.rule for item in check.waived] == ["policy.source"]
    assert rules(report) == ["policy.waiver-unmatched"]
    assert check.findings[0].path == "policies/waivers/two.yaml"
    assert "expires in 5 days (ann@example.org answers for it)" in check.warnings[0]
    assert report.model.served_digest == DIGEST
