"""The few facts that a timeline tells of a report and a record, read quickly enough for thousands of them.

What is told here is what the files say. A verification reads them whole and strictly.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

from modelctl.admission.report import Report, Verdict
from modelctl.errors import InputError

VERDICTS: tuple[str, ...] = get_args(Verdict)
_RECORD = {
    name: re.compile(pattern, re.MULTILINE)
    for name, pattern in {
        "policy": rb"^policy:\n  name: (\S+)$",
        "policy_digest": rb"^policy:\n  name: \S+\n  digest: (sha256:[0-9a-f]{64})$",
        "report_sha256": rb"^  report_sha256: ([0-9a-f]{64})$",
        "key_id": rb"^  key_id: (\S+)$",
        "digest": rb"^served:\n  tree_digest: (sha256:[0-9a-f]{64})$",
        "source": rb"^source:\n  description: (.+)\n",
        "source_digest": rb"^source:\n  description: .+\n  tree_digest: (sha256:[0-9a-f]{64})$",
        "published_at": rb"^published_at: '?([0-9TZ:-]+)'?$",
    }.items()
}


@dataclass(frozen=True, kw_only=True)
class Waived:
    """A finding that a waiver let stand."""

    rule: str
    path: str | None
    waiver: str
    reason: str
    owner: str
    approver: str
    expires: str


@dataclass(frozen=True, kw_only=True)
class ReportFacts:
    """What a report says."""

    verdict: Verdict
    served_digest: str | None
    policy: str
    policy_digest: str
    machines: tuple[str, ...]
    checks: tuple[tuple[str, str], ...]
    """(id, outcome)."""
    partial: bool
    waived: tuple[Waived, ...]
    sha256: str


def report_facts(content: bytes, *, origin: str) -> ReportFacts:
    """What a report's bytes say. Raises `InputError` for what is no report."""
    try:
        return _facts(json.loads(content), hashlib.sha256(content).hexdigest())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        Report.from_json(content.decode(errors="replace"), origin=origin)  # says it in the words of a report's reader
        raise InputError(f"{origin}: not a report: {error!r}") from error


def record_facts(content: bytes) -> Mapping[str, str]:
    """What a record's lines say; a line that is written in another way than modelctl's is left out."""
    found = {name: pattern.search(content) for name, pattern in _RECORD.items()}
    return {name: match[1].decode(errors="replace").strip("'\"") for name, match in found.items() if match}


def _facts(body: Any, sha256: str) -> ReportFacts:
    verdict = body["verdict"]
    if verdict not in VERDICTS:
        raise ValueError(f"verdict {verdict!r}")
    runs = [run["machine"]["hostname"] for run in body.get("runs", ())]
    return ReportFacts(
        verdict=cast("Verdict", verdict),
        served_digest=body["model"]["served_digest"],
        policy=str(body["policy"]["name"]),
        policy_digest=str(body["policy"]["digest"]),
        machines=tuple(dict.fromkeys(map(str, runs or [body["machine"]["hostname"]]))),
        checks=tuple((str(check["id"]), str(check["outcome"])) for check in body["checks"]),
        partial=bool(body["partial"]),
        waived=tuple(_waived(item) for check in body["checks"] for item in check.get("waived", ())),
        sha256=sha256,
    )


def _waived(item: Any) -> Waived:
    finding = item["finding"]
    return Waived(
        rule=str(finding["rule"]),
        path=finding["path"],
        waiver=str(item["waiver"]),
        reason=str(item["reason"]),
        owner=str(item["owner"]),
        approver=str(item["approver"]),
        expires=str(item["expires"]),
    )
