"""Did the policy of that day really let a release in: the report is judged again, by the rules before its publication.

Nothing that the report concludes is taken over. Outcomes follow anew from what its checks saw, the figures are held
against the limits, waivers against the files that were there, and the verdict is made by the code that makes it in a
gate. A report of another version of modelctl is held to what the policy's own files wrote, since its defaults may have
been others.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from modelctl import __version__
from modelctl.admission.closing import POLICY_ID, close
from modelctl.admission.merging import Evidence, merged_checks, together
from modelctl.admission.policy import LoadedPolicy
from modelctl.admission.report import CheckReport, Report
from modelctl.admission.strictness import weaker
from modelctl.admission.waivers import Waivers
from modelctl.audit.day import Rules
from modelctl.audit.publications import Publication
from modelctl.audit.violation import Unverified, Violation
from modelctl.errors import InputError, ModelctlError
from modelctl.isolation import Sandbox
from modelctl.registry.names import REPORT_FILE
from modelctl.registry.records import Record

FIGURES: Mapping[str, Mapping[str, str]] = {
    "quantization": {"accuracy-drop-upper": "max_drop_points", "bits-per-byte-rise": "max_bits_per_byte_rise"},
    "concurrency": {
        "waiting-max": "max_waiting",
        "degenerate-share": "max_degenerate_share",
        "ttft-p95": "max_ttft_p95_s",
        "tpot-p95": "max_tpot_p95_s",
    },
}
"""Figures of a check that passed, and the limit that each must stay under."""
_STRICT = ("accuracy-drop-upper", "waiting-max")
"""Those that the limit itself is already too much for."""


def check_admission(
    publication: Publication, record: Record, report: Report, rules: Rules
) -> Iterator[Violation | Unverified]:
    """Every reason why the rules of the day before do not let this release in."""
    where = f"policies/ at {publication.before[:12]}"
    try:
        loaded = rules.policy(report.policy.name)
        waivers = rules.waivers
    except InputError as error:
        message = f"admitted under '{report.policy.name}', which {where} does not hold: {error.message}"
        yield _violation(publication, "policy-unknown", message)
        return
    same = report.modelctl_version == __version__
    if loaded.digest != report.policy.digest:
        if same:
            message = f"admitted under '{loaded.name}' {report.policy.digest}, {where} makes {loaded.digest}"
            yield _violation(publication, "policy-digest", message)
        elif rules.is_built_in(loaded):
            yield Unverified(
                release=publication.id,
                reason=f"admitted by modelctl {report.modelctl_version} under its own policy, this is {__version__}",
                remedy=f"verify with modelctl {report.modelctl_version}, or keep the policy's text in policies/",
            )
            return
    yield from _age(publication, record, report, loaded)
    checks = [check for check in report.checks if check.id != POLICY_ID]
    for check in checks:
        yield from _check(publication, check, loaded, same=same)
    yield from _verdict(publication, report, loaded, rules, waivers)


def _check(publication: Publication, check: CheckReport, loaded: LoadedPolicy, *, same: bool) -> Iterator[Violation]:
    try:
        limits = loaded.policy.limits(check.id)
    except KeyError:
        yield _violation(publication, "policy-weaker", f"has the check '{check.id}', which the policy does not name")
        return
    asked = limits.model_dump(mode="json", by_alias=True)
    judged = check if same else replace(check, limits=_as_far_as_written(check, asked, loaded))
    for reason in weaker(judged, limits):
        yield _violation(publication, "policy-weaker", reason)
    if check.findings or check.waived or check.outcome != "passed":
        return
    for name, limit in FIGURES.get(check.id, {}).items():
        allowed = asked.get(limit)
        for figure in check.measurements:
            value = figure.value
            if figure.name != name or allowed is None or not isinstance(value, int | float):
                continue
            if value > allowed or (value == allowed and name in _STRICT):
                message = f"{check.id} passed with {name} {value:g}, the policy's {limit} is {allowed:g}"
                yield _violation(publication, "policy-figure", message)


def _as_far_as_written(check: CheckReport, asked: Mapping[str, Any], loaded: LoadedPolicy) -> Mapping[str, Any]:
    """The limits of a report of another version: what no file of the policy wrote counts as what is asked now."""
    if not check.limits:
        return {}
    written = {key[3] for key in loaded.origins if key[:3] == ("spec", "checks", check.id) and len(key) > 3}
    return {name: check.limits.get(name) if name in written else value for name, value in asked.items()}


def _verdict(
    publication: Publication, report: Report, loaded: LoadedPolicy, rules: Rules, known: Any
) -> Iterator[Violation | Unverified]:
    try:
        made = datetime.datetime.fromisoformat(report.created_at)
    except ValueError:
        yield _violation(publication, "policy-unsatisfied", f"its report names no time: {report.created_at!r}")
        return
    waivers = Waivers(
        waivers=known,
        rules=loaded.policy.spec.waivers,
        release=publication.id,
        today=made.astimezone(datetime.UTC).date(),
    )
    evidence = Evidence(folder=Path(REPORT_FILE), report=report, sha256="", signed_by=None, problems=())
    missing = list(together([evidence], loaded.policy))
    for reason in missing:
        yield _violation(publication, "policy-unsatisfied", reason)
    claimed = [item for check in report.checks for item in check.waived]
    checks = merged_checks([evidence], loaded.policy, waivers)
    try:
        again = close(replace(report, checks=checks), loaded, waivers, Sandbox())
    except ModelctlError as error:
        yield Unverified(release=publication.id, reason=f"judging it again: {error.message}", remedy=error.remedy or "")
        return
    granted = {(item.finding.rule, item.finding.path) for check in again.checks for item in check.waived}
    for item in claimed:
        if (item.finding.rule, item.finding.path) not in granted:
            message = (
                f"{item.finding.rule} was waived by {item.waiver}, and no waiver of that day lets it stand "
                f"(policies/waivers at {rules.files.commit[:12]})"
            )
            yield _violation(publication, "waiver-unfounded", message)
    if again.verdict != "admitted":
        message = f"judged again by the rules of that day it is {again.verdict}: {'; '.join(again.reasons)}"
        yield _violation(publication, "policy-unsatisfied", message)


def _age(publication: Publication, record: Record, report: Report, loaded: LoadedPolicy) -> Iterator[Violation]:
    limit = loaded.policy.spec.evidence.max_age_hours
    try:
        age = datetime.datetime.fromisoformat(record.published_at) - datetime.datetime.fromisoformat(report.created_at)
    except (ValueError, TypeError):
        return  # said where the report is judged again
    hours = age.total_seconds() / 3600
    if hours > limit:
        message = f"published {hours:.0f} hours after its report was made, the policy allows {limit:g}"
        yield _violation(publication, "policy-stale", message)


def _violation(publication: Publication, rule: str, message: str) -> Violation:
    return publication.violation(
        rule,
        message,
        REPORT_FILE,
        commit=publication.commit.id,
        remedy=f"withdraw {publication.id} (modelctl rollback, modelctl gc), admit it under the policy that holds, and "
        f"ask who published it: git show {publication.commit.id[:12]}",
    )
