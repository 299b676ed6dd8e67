"""Runs one check, once or on both trees, and turns what it saw into its report. A check's own failure never ends the
run."""

from __future__ import annotations

import dataclasses
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from modelctl.admission.evidence import EvidenceFolder
from modelctl.admission.report import CheckReport, WaivedFinding
from modelctl.admission.verdict import outcome_of
from modelctl.admission.waivers import Waivers
from modelctl.checks.base import Check, CheckContext, CheckLimits, Measurement, Observation, Undecided
from modelctl.errors import CannotDecideError, DoesNotApplyError, ModelctlError

NOTHING = Observation(coverage=())


class CheckRun:
    """One check of one admission: observations are added until `report` closes it."""

    def __init__(self, check: Check[Any], evidence: EvidenceFolder, waivers: Waivers | None = None) -> None:
        self.check = check
        self._waivers = waivers or Waivers()
        self._waived: tuple[WaivedFinding, ...] = ()
        self.observation = NOTHING
        self.evidence = evidence
        self._skipped: str | None = None
        self._duration_s = 0.0
        self._started_at = now()

    @property
    def has_findings(self) -> bool:
        """Whether it is clear already that the check failed; a waived finding is none."""
        return bool(self.observation.findings)

    def run(self, context: CheckContext[Any], *, both_trees: bool) -> None:
        """Run the check in a scratch folder of its own, within its time limit, and add what it saw."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=context.workdir, prefix=f"{self.check.id}-") as workdir:
            seen = self._guarded(dataclasses.replace(context, workdir=Path(workdir)))
        seen = seen.of_tree(context.role) if both_trees else seen
        standing, waived = self._waivers.apply(seen.findings, context.tree.digest)
        self.observation = self.observation.plus(dataclasses.replace(seen, findings=standing))
        self._waived += waived
        self._duration_s += time.monotonic() - began

    def add_undecided(self, reason: str, remedy: str | None) -> None:
        """Record that something kept the check from being run."""
        self.observation = self.observation.plus(
            Observation(coverage=(), undecided=(Undecided(reason=reason, remedy=remedy),))
        )

    def skip(self, reason: str) -> None:
        """Record that the check has nothing to judge here; the policy decides whether that is enough."""
        self._skipped = reason

    def report(self, *, limits: CheckLimits) -> CheckReport:
        """Close the check; `limits` is the policy's section for it."""
        seen = self.observation
        outcome = outcome_of(seen, skipped=self._skipped is not None)
        undecided = seen.undecided
        if outcome == "error" and not undecided:
            undecided = (Undecided(reason="the check looked at nothing and measured nothing"),)
        return CheckReport(
            id=self.check.id,
            outcome=outcome,
            required=limits.required,
            coverage=seen.coverage,
            findings=seen.findings,
            undecided=undecided,
            skipped_because=self._skipped,
            measurements=_headline_first(seen.measurements, self.check.headline),
            warnings=tuple(dict.fromkeys(seen.warnings)),
            tools=dict(seen.tools),
            evidence=self.evidence.listing(),
            started_at=self._started_at,
            duration_s=round(self._duration_s, 3),
            waived=self._waived,
            limits=limits.model_dump(mode="json", by_alias=True),
        )

    def _guarded(self, context: CheckContext[Any]) -> Observation:
        try:
            with time_limit(context.limits.time_limit_s):
                return self.check.run(context)
        except DoesNotApplyError as reason:
            self._skipped = reason.message
            return NOTHING
        except ModelctlError as error:
            undecided = Undecided(reason=error.message, remedy=error.remedy)
        except Exception as error:  # noqa: BLE001 - the boundary: a fault in a check is an outcome
            self.evidence.keep("traceback.txt", traceback.format_exc().encode())
            undecided = Undecided(
                reason=f"fault in the check: {type(error).__name__}: {error}",
                remedy="see traceback.txt in its evidence, and report it as a bug of modelctl",
            )
        return Observation(coverage=(), undecided=(undecided,))


def _headline_first(measurements: Sequence[Measurement], headline: Sequence[str]) -> tuple[Measurement, ...]:
    """The first measurement of each headline name, then all others in their order."""
    firsts = [next((item for item in measurements if item.name == name), None) for name in headline]
    first = [item for item in firsts if item is not None]
    return (*first, *(item for item in measurements if not any(item is shown for shown in first)))


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `CannotDecideError` in the `with` block after that time.

    Works in the main thread, where signals arrive; elsewhere the limits that checks give their children still hold.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def expire(_number: int, _frame: FrameType | None) -> None:
        raise CannotDecideError(
            f"time limit of {seconds:g} s reached", remedy="raise time_limit_s of this check in the policy"
        )

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def now() -> str:
    """The time in UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
