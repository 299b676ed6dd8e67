"""From what a check saw to its outcome, and from the outcomes to the verdict. No other place decides.

Refused wins over could-not-decide; could-not-decide wins over admitted; no checks at all is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modelctl.admission.report import CheckReport, Outcome, Verdict
from modelctl.checks.base import Observation


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A verdict and why."""

    verdict: Verdict
    reasons: tuple[str, ...]


def outcome_of(observation: Observation, *, skipped: bool) -> Outcome:
    """The outcome of one check. Silence (nothing looked at, nothing measured) is an error, never a pass."""
    if observation.findings:
        return "failed"
    if observation.undecided:
        return "error"
    if skipped:
        return "skipped"
    looked = any(item.seen > 0 for item in observation.coverage) or bool(observation.measurements)
    return "passed" if looked else "error"


def decide(checks: Sequence[CheckReport], *, may_skip: frozenset[str], isolation_missing: bool) -> Decision:
    """The verdict over the reports of all checks that were asked for.

    `may_skip`: checks for which the policy accepts "does not apply". `isolation_missing`: the policy demands
    isolation that this machine did not give.
    """
    refused = [_count(check) for check in checks if check.required and check.outcome == "failed"]
    if not checks or not any(check.required for check in checks):
        refused.append("no required check was run")
    if refused:
        return Decision(verdict="refused", reasons=tuple(refused))
    open_questions = [f"{check.id} could not decide" for check in checks if check.required and check.outcome == "error"]
    open_questions += [
        f"{check.id} was skipped and the policy does not allow that"
        for check in checks
        if check.required and check.outcome == "skipped" and check.id not in may_skip
    ]
    if isolation_missing:
        open_questions.append("the policy requires isolation, and this machine gave none (see modelctl doctor)")
    if open_questions:
        return Decision(verdict="undecided", reasons=tuple(open_questions))
    return Decision(verdict="admitted", reasons=())


def _count(check: CheckReport) -> str:
    number = len(check.findings)
    return f"{check.id}: {number} finding{'s' if number != 1 else ''}"
