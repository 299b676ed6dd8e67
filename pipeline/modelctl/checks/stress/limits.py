"""How much load a release must stand, and what is still good: the figures of policy section `concurrency`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from modelctl.checks.base import CheckLimits


class LoadLimits(CheckLimits):
    """The load and its limits. Times in seconds, lengths in tokens."""

    streams: Annotated[int, Field(ge=1)] = 100
    duration_s: Annotated[float, Field(gt=0)] = 1800
    """How long all streams are kept busy, after the ramp."""
    ramp_s: Annotated[float, Field(ge=0)] = 60
    """Time over which the streams start, since a burst queues with good reason."""
    prompt_tokens: Annotated[int, Field(ge=16)] = 1024
    answer_tokens: Annotated[int, Field(ge=8)] = 256
    max_waiting: Annotated[int, Field(ge=1)] = 5
    """Waiting requests must stay under this at every reading after the ramp."""
    max_failed: Annotated[int, Field(ge=0)] = 0
    max_stall_s: Annotated[float, Field(gt=0)] = 60
    """Longest time without a token while requests run, for one stream and for the engine."""
    max_preemptions: Annotated[int, Field(ge=0)] | None = 0
    max_degenerate_share: Annotated[float, Field(ge=0, le=1)] = 0.001
    """Answers that repeat one token under load and not alone, among all."""
    max_ttft_p95_s: Annotated[float, Field(gt=0)] | None = None
    max_tpot_p95_s: Annotated[float, Field(gt=0)] | None = None
    require_gpu: bool = True
    """Whether an engine that modelctl starts must have a GPU for its figures to count."""
    max_client_lag_s: Annotated[float, Field(gt=0)] = 0.25
    """The client's event loop may be late by this (p99), else its figures do not count."""
    min_achieved_share: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Share of the streams that the client must have kept busy."""
    request_time_limit_s: Annotated[float, Field(gt=0)] = 600
    scrape_s: Annotated[float, Field(gt=0)] = 1
    seed: int = 0
    time_limit_s: Annotated[int, Field(ge=1)] = 7200
