"""SARIF 2.1.0, as code scanning reads it (OASIS SARIF v2.1.0).

A finding stands at the release file that a pull request brings, since that is the file people review there; the model's
own file and line are its related location. Without a release the model's file is the location. What could not be
decided is a notification of the run, which then was not successful; a waived finding is a suppressed result.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from modelctl.admission.report import CheckReport, Report, WaivedFinding
from modelctl.admission.terminal import printable
from modelctl.checks.base import Finding

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LINE = re.compile(r":([1-9]\d{0,8}): ")


def render(report: Report) -> str:
    """The log, deterministic."""
    found = list(_findings(report))
    firsts = {finding.rule: finding for _, finding, _ in reversed(found)}
    rules = list(dict.fromkeys(finding.rule for _, finding, _ in found))
    index = {rule: number for number, rule in enumerate(rules)}
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "modelctl",
                        "semanticVersion": report.modelctl_version,
                        "rules": [_rule(firsts[rule]) for rule in rules],
                    }
                },
                "automationDetails": {"id": f"modelctl/{report.model.release or 'model'}"},
                "invocations": [_invocation(report)],
                "results": [_result(report, check, finding, waived, index) for check, finding, waived in found],
                "properties": {
                    "verdict": report.verdict,
                    "sourceDigest": report.model.source_digest,
                    "servedDigest": report.model.served_digest,
                    "policyDigest": report.policy.digest,
                },
            }
        ],
    }
    return json.dumps(log, ensure_ascii=False, separators=(",", ":")) + "\n"  # read by programs, and often large


def _findings(report: Report) -> Iterator[tuple[CheckReport, Finding, WaivedFinding | None]]:
    for check in report.checks:
        yield from ((check, finding, None) for finding in check.findings)
        yield from ((check, waived.finding, waived) for waived in check.waived)


def _rule(first: Finding) -> Mapping[str, Any]:
    rule = first.rule
    words = rule.partition(".")[2].replace("-", " ")
    return {
        "id": rule,
        "shortDescription": {"text": f"{rule.partition('.')[0]}: {words}"},
        "help": {"text": printable(first.remedy)},
    }


def _invocation(report: Report) -> Mapping[str, Any]:
    notes = [
        {
            "level": "error",
            "message": {"text": printable(f"{check.id} could not decide: {item.reason}")},
            "descriptor": {"id": f"{check.id}.undecided"},
        }
        for check in report.checks
        for item in check.undecided
    ]
    return {
        "executionSuccessful": not any(check.outcome == "error" for check in report.checks),
        "exitCode": report.exit_code,
        "endTimeUtc": report.created_at,
        "toolExecutionNotifications": notes,
    }


def _result(
    report: Report, check: CheckReport, finding: Finding, waived: WaivedFinding | None, index: Mapping[str, int]
) -> Mapping[str, Any]:
    file = _location(finding.path, finding.message) if finding.path else None
    release = _release_file(report)
    digest = hashlib.sha256("\0".join((finding.rule, finding.path or "", finding.message)).encode()).hexdigest()
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index[finding.rule],
        "level": "error" if check.required else "warning",
        "message": {"text": printable(f"{_where(finding)}{finding.message}\nnext: {finding.remedy}")},
        "partialFingerprints": {"modelctlFinding/v1": digest},
    }
    if release is not None:
        result["locations"] = [{"physicalLocation": {"artifactLocation": {"uri": release}, "region": {"startLine": 1}}}]
        if file is not None:
            result["relatedLocations"] = [{"id": 1, **file, "message": {"text": "the model's own file"}}]
    elif file is not None:
        result["locations"] = [file]
    if waived is not None:
        why = f"{waived.reason} (owner {waived.owner}, approver {waived.approver}, until {waived.expires})"
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": printable(why)}]
    return result


def _where(finding: Finding) -> str:
    return f"{finding.path}: " if finding.path and not finding.message.startswith(finding.path) else ""


def _location(path: str, message: str) -> Mapping[str, Any]:
    """The model's file, and the line where the message begins with both, as compilers write it."""
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(path)}}
    line = _LINE.match(message.removeprefix(path)) if message.startswith(path) else None
    if line is not None:
        place["region"] = {"startLine": int(line[1])}
    return {"physicalLocation": place}


def _release_file(report: Report) -> str | None:
    if report.model.release is None:
        return None
    name, _, version = report.model.release.partition("@")
    return quote(f"registry/{name}/{version}/release.yaml")
