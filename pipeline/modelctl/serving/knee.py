"""The knee of a sweep: the most streams up to which going up still paid, with a confidence interval for every step.

Each round of a sweep tries every number of streams once, so a step's gain is paired by round and drift between rounds
cancels out: the interval is Student's for the mean of the log ratios. A step pays when twice the streams gain at
least `PAYS`; the knee is certain when every interval up to it lies above that, and the next one's below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

from modelctl.serving.sweep import Stage

PAYS = 1.10
"""Least gain in throughput for twice the streams; for another factor f the gain wanted is PAYS ** log2(f)."""
_T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""Student's t for 95 % two-sided, by degrees of freedom from 1 (any table; the tests hold it against SciPy)."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """From one number of streams to the next."""

    below: int
    above: int
    gain: float
    """Geometric mean over the rounds."""
    lower: float | None
    """Ends of the 95 % interval; None with fewer than two rounds."""
    upper: float | None
    wanted: float

    @property
    def pays(self) -> bool:
        """Whether the measured gain is enough."""
        return self.gain >= self.wanted

    @property
    def certain(self) -> bool:
        """Whether the whole interval lies on the side of the measured gain."""
        if self.lower is None or self.upper is None:
            return False
        return self.lower >= self.wanted if self.pays else self.upper < self.wanted


@dataclass(frozen=True, kw_only=True)
class Knee:
    """Where more streams stopped paying."""

    streams: int
    throughput: float
    """Mean written tokens a second there."""
    reached: bool
    """Whether a step beyond it was tried and did not pay; False: the sweep ended before."""
    certain: bool
    """Whether every step up to it surely paid, and the one beyond surely did not."""


def steps(stages: Sequence[Stage]) -> tuple[Step, ...]:
    """The steps between neighbouring numbers of streams; stages that do not count are left out."""
    rounds = _by_streams(stages)
    levels = sorted(rounds)
    found = []
    for below, above in pairwise(levels):
        both = rounds[below].keys() & rounds[above].keys()
        ratios = [math.log(rounds[above][repeat] / rounds[below][repeat]) for repeat in sorted(both)]
        if ratios:
            found.append(_step(below, above, ratios))
    return tuple(found)


def knee(stages: Sequence[Stage]) -> Knee | None:
    """The knee, or None when no stage counts."""
    rounds = _by_streams(stages)
    if not rounds:
        return None
    at, certain, reached = min(rounds), True, False
    for step in steps(stages):
        certain = certain and step.certain
        if not step.pays:
            reached = True
            break
        at = step.above
    return Knee(streams=at, throughput=fmean(rounds[at].values()), reached=reached, certain=certain)


def _by_streams(stages: Sequence[Stage]) -> dict[int, dict[int, float]]:
    """Throughput by streams and round, of stages that count."""
    found: dict[int, dict[int, float]] = {}
    for stage in stages:
        if stage.counts:
            found.setdefault(stage.streams, {})[stage.repeat] = stage.throughput
    return found


def _step(below: int, above: int, ratios: Sequence[float]) -> Step:
    middle, wanted = fmean(ratios), PAYS ** math.log2(above / below)
    if len(ratios) < 2:
        return Step(below=below, above=above, gain=math.exp(middle), lower=None, upper=None, wanted=wanted)
    t = _T_975[min(len(ratios) - 1, len(_T_975)) - 1]
    half = t * stdev(ratios) / math.sqrt(len(ratios))
    return Step(
        below=below,
        above=above,
        gain=math.exp(middle),
        lower=math.exp(middle - half),
        upper=math.exp(middle + half),
        wanted=wanted,
    )
