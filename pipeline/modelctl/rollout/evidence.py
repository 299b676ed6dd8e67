"""What a release's report has measured of the figures that it is served with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from modelctl.admission.report import Report
from modelctl.checks.base import Measurement


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Figures of the stress checks; None: nobody measured it."""

    longest_answered: int | None = None
    """Tokens of prompt and answer, in the long-context check."""
    streams: int | None = None
    """Streams that the concurrency check held all the time."""
    kv_tokens: int | None = None
    """Tokens that fit the KV cache of the engine that was measured."""


def evidence_of(report: Report) -> Evidence:
    """Read the figures of the checks that passed."""
    found = {
        (check.id, measured.name): measured
        for check in report.checks
        if check.outcome == "passed"
        for measured in check.measurements
    }
    longest = found.get(("long-context", "longest-answered"))
    achieved = found.get(("concurrency", "achieved-streams"))
    pools = [
        found[key] for key in (("concurrency", "engine-kv-pool"), ("long-context", "engine-kv-pool")) if key in found
    ]
    return Evidence(
        longest_answered=_whole(longest.value) if longest else None,
        streams=_whole(achieved.parameters.get("streams")) if achieved else None,
        kv_tokens=next(_tokens(pools), None),
    )


def _tokens(pools: list[Measurement]) -> Iterator[int]:
    for pool in pools:
        tokens = _whole(pool.parameters.get("tokens"))
        if tokens:
            yield tokens


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) else None
