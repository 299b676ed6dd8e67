"""SARIF: complete by the standard's rules that code scanning relies on, and pointing at the release file.

The structure is held against the required properties of SARIF 2.1.0 (OASIS, section 3), written out here.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from modelctl.admission.formats import render
from modelctl.admission.report import Report
from tests.admission.formats.reports import full_report, large_report
from tests.support.reports import a_report

LEVELS = {"none", "note", "warning", "error"}


def hold(log: dict[str, Any]) -> dict[str, Any]:
    """Assert what the standard demands of a log with one run; returns the run."""
    assert log["version"] == "2.1.0"
    assert set(log) == {"$schema", "version", "runs"}
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "modelctl"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", driver["semanticVersion"])
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in driver["rules"])
    for result in run["results"]:
        assert set(result) <= {
            "ruleId", "ruleIndex", "level", "message", "locations", "relatedLocations", "partialFingerprints",
            "suppressions",
        }  # fmt: skip
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in LEVELS
        assert result["message"]["text"]
        for location in (*result.get("locations", ()), *result.get("relatedLocations", ())):
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert re.fullmatch(r"[A-Za-z0-9._~!$&'()*+,;=@/%-]+", uri), uri
            assert location["physicalLocation"].get("region", {"startLine": 1})["startLine"] >= 1
        assert all(re.fullmatch(r"[0-9a-f]{64}", mark) for mark in result["partialFingerprints"].values())
        assert all(item["kind"] in ("inSource", "external") for item in result.get("suppressions", ()))
    for invocation in run["invocations"]:
        assert isinstance(invocation["executionSuccessful"], bool)
        assert all(item["level"] in LEVELS for item in invocation["toolExecutionNotifications"])
    return dict(run)


def run_of(report: Report) -> dict[str, Any]:
    return hold(json.loads(render(report, "sarif")))


def test_findings_stand_at_the_release_file_with_the_models_file_beside_it() -> None:
    run = run_of(full_report())
    first = run["results"][0]
    place = first["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]) == (
        "registry/tiny/1.0.0/release.yaml", {"startLine": 1},
    )  # fmt: skip
    assert first["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 12}
    assert [result["level"] for result in run["results"]] == ["error", "error", "error", "warning"]
    assert len({result["partialFingerprints"]["modelctlFinding/v1"] for result in run["results"]}) == 4


def test_without_a_release_they_stand_at_the_models_own_file() -> None:
    report = full_report()
    from dataclasses import replace

    run = run_of(replace(report, model=replace(report.model, release=None)))
    assert run["results"][2]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "config.json"
    assert "locations" not in run["results"][1]


def test_waived_is_suppressed_and_undecided_is_a_failed_execution() -> None:
    run = run_of(full_report())
    (suppression,) = run["results"][2]["suppressions"]
    assert suppression["status"] == "accepted"
    assert "owner ann, approver bob, until 2027-01-31" in suppression["justification"]
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 1)
    assert "malware could not decide: clamd is gone" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_an_admitted_release_has_no_results() -> None:
    run = run_of(a_report())
    assert (run["results"], run["invocations"][0]["executionSuccessful"]) == ([], True)


@pytest.mark.slow
def test_ten_thousand_findings() -> None:
    assert len(run_of(large_report())["results"]) == 10_000
