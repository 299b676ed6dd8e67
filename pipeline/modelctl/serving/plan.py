"""How much load, in which shape, and by how many processes."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Literal

from modelctl.serving.bodies import Api

MAX_LAG_S = 0.25
"""Lateness of the client's event loop (p99) from which on its times do not count."""
MIN_ACHIEVED = 0.9
"""Share of the streams that the client must have kept busy."""
STREAMS_A_PROCESS = 256
"""Closed loop: streams that one process drives."""
TOKENS_A_PROCESS = 8000
"""Open loop: tokens a second that one process reads, a third of what a core can."""
_TOKENS_A_REQUEST = 20
"""What sending a request costs, in read tokens."""


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """How much load: lengths in tokens, times in seconds.

    Without a `rate` it is a closed loop of `streams`; with one an open loop, in which requests are sent when they are
    due, whatever became of those before.
    """

    streams: int
    """Closed loop: requests kept under way. Open loop: most requests under way at once; what is due beyond them is a
    row with the failure `not-sent`, so that memory stays bounded and nothing is hidden."""
    duration_s: float
    """After the ramp."""
    ramp_s: float
    """Closed loop: over which streams start. Open loop: a warm-up at full rate."""
    prompt_tokens: int
    answer_tokens: int
    scrape_s: float
    exact_answer: bool
    first_serial: int = 0
    """Number of the first prompt; loads on one engine that must not share prompts begin far apart."""
    api: Api = "completions"
    image: bool = False
    """Chat: a picture of ours before every text."""
    rate: float | None = None
    """Requests a second."""
    arrivals: Literal["poisson", "even"] = "poisson"
    """Open loop: independent arrivals, as many users make them, or evenly spaced ones."""
    seed: int = 0
    """Of the arrivals."""
    processes: int | None = None
    """None: as many as `process_count` says."""

    @property
    def end_s(self) -> float:
        """When the last request starts, after the first."""
        return self.ramp_s + self.duration_s


def process_count(plan: LoadPlan, *, cores: int | None = None) -> int:
    """How many processes put the load on: one for 256 streams, or for 8000 tokens a second at a rate, one core left to
    others where there are several."""
    if plan.processes is not None:
        return min(plan.processes, plan.streams)
    available = len(os.sched_getaffinity(0)) if cores is None else cores
    if plan.rate is None:
        wanted = plan.streams / STREAMS_A_PROCESS
    else:
        wanted = plan.rate * (plan.answer_tokens + _TOKENS_A_REQUEST) / TOKENS_A_PROCESS
    return max(1, min(math.ceil(wanted), available - 1))
