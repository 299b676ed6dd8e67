"""The few facts that a timeline tells of a report and a record, read quickly enough for thousands of them.

What is told here is what the files say. A verification reads them whole and strictly.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from modelctl.errors import InputError
from modelctl.registry.names import RECORD_FILE, REPORT_FILE
from modelctl.rollout.words import RELEASE_ANNOTATION

VERDICTS = ("admitted", "refused", "undecided")
if TYPE_CHECKING:
    from modelctl.admission.report import Verdict

_RECORD = {
    name: re.compile(pattern, re.MULTILINE)
    for name, pattern in {
        "policy": rb"^policy:\n  name: (\S+)$",
        "policy_digest": rb"^policy:\n  name: \S+\n  digest: (sha256:[0-9a-f]{64})$",
        "report_sha256": rb"^  report_sha256: ([0-9a-f]{64})$",
        "key_id": rb"^  key_id: (\S+)$",
        "identity": rb"^  identity: (\S.*)$",
        "digest": rb"^served:\n  tree_digest: (sha256:[0-9a-f]{64})$",
        "source": rb"^source:\n  description: (.+)\n",
        "source_digest": rb"^source:\n  description: .+\n  tree_digest: (sha256:[0-9a-f]{64})$",
        "published_at": rb"^published_at: '?([0-9TZ:-]+)'?$",
    }.items()
}


_ANNOTATION = re.compile(rb"^\s+" + re.escape(RELEASE_ANNOTATION).encode() + rb": (\S+)$", re.MULTILINE)


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
        from modelctl.admission.report import Report

        Report.from_json(content.decode(errors="replace"), origin=origin)  # says it in the words of a report's reader
        raise InputError(f"{origin}: not a report: {error!r}") from error


def record_facts(content: bytes) -> Mapping[str, str]:
    """What a record's lines say; a line that is written in another way than modelctl's is left out."""
    found = {name: pattern.search(content) for name, pattern in _RECORD.items()}
    return {name: match[1].decode(errors="replace").strip("'\"") for name, match in found.items() if match}


def plain_facts(content: bytes, file: str) -> object:
    """What a blob says as plain JSON values, by the kind of file that it is; None for a report that is none."""
    if file == REPORT_FILE:
        try:
            facts = report_facts(content, origin=file)
            return {**vars(facts), "waived": [vars(item) for item in facts.waived]}
        except InputError:
            return None
    if file == RECORD_FILE:
        return record_facts(content)
    named = _ANNOTATION.search(content)
    return named[1].decode(errors="replace") if named else ""


def facts_of(plain: Any) -> ReportFacts:
    """A report's facts from what `plain_facts` made of it."""
    waived = tuple(Waived(**item) for item in plain["waived"])
    checks = tuple((str(name), str(outcome)) for name, outcome in plain["checks"])
    return ReportFacts(**{**plain, "waived": waived, "checks": checks, "machines": tuple(plain["machines"])})


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
