"""Refused wins over could-not-decide, could-not-decide over admitted, and silence is never a pass."""

from __future__ import annotations

import pytest

from modelctl.admission.report import CheckReport, Outcome, Verdict
from modelctl.admission.verdict import decide, outcome_of
from modelctl.checks.base import Coverage, Finding, Measurement, Observation, Undecided
from tests.support.reports import a_check

FINDING = Finding(rule="x.y", message="m", remedy="r")
SEEN = Coverage(unit="files", seen=1, total=1)
UNSEEN = Coverage(unit="files", seen=0, total=0)


@pytest.mark.parametrize(
    ("observation", "skipped", "outcome"),
    [
        (Observation(coverage=(SEEN,)), False, "passed"),
        (Observation(coverage=(), measurements=(Measurement(name="n", value=0),)), False, "passed"),
        (Observation(coverage=()), False, "error"),
        (Observation(coverage=(UNSEEN,)), False, "error"),
        (Observation(coverage=()), True, "skipped"),
        (Observation(coverage=(SEEN,), undecided=(Undecided(reason="r"),)), False, "error"),
        (Observation(coverage=(SEEN,), undecided=(Undecided(reason="r"),)), True, "error"),
        (Observation(coverage=(SEEN,), undecided=(Undecided(reason="r"),), findings=(FINDING,)), False, "failed"),
    ],
)
def test_outcome(observation: Observation, skipped: bool, outcome: Outcome) -> None:
    assert outcome_of(observation, skipped=skipped) == outcome


def verdict_of(
    *checks: CheckReport, may_skip: frozenset[str] = frozenset(), isolation_missing: bool = False
) -> Verdict:
    return decide(checks, may_skip=may_skip, isolation_missing=isolation_missing).verdict


def test_all_passed_admits() -> None:
    assert verdict_of(a_check("integrity"), a_check("malware")) == "admitted"


def test_no_checks_are_refused() -> None:
    assert verdict_of() == "refused"
    assert verdict_of(a_check(required=False)) == "refused"


def test_refused_wins_over_could_not_decide() -> None:
    decision = decide(
        [a_check("malware", "error"), a_check("integrity", "failed")], may_skip=frozenset(), isolation_missing=True
    )
    assert decision.verdict == "refused"
    assert decision.reasons == ("integrity: 1 finding",)


def test_could_not_decide_wins_over_admitted() -> None:
    assert verdict_of(a_check(), a_check("malware", "error")) == "undecided"
    assert verdict_of(a_check(), isolation_missing=True) == "undecided"


def test_a_skip_needs_the_policys_leave() -> None:
    skipped = a_check("quantization", "skipped")
    assert verdict_of(a_check(), skipped) == "undecided"
    assert verdict_of(a_check(), skipped, may_skip=frozenset({"quantization"})) == "admitted"


def test_an_optional_check_does_not_refuse() -> None:
    assert verdict_of(a_check(), a_check("code", "failed", required=False)) == "admitted"
