"""How much a release must stand, and what is still good: the figures of the policy sections `concurrency` and
`long-context`."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import Field

from modelctl.checks.base import CheckLimits
from modelctl.serving.plan import MAX_LAG_S, MIN_ACHIEVED

Fraction = Annotated[float, Field(gt=0, le=1)]
Streams = Annotated[int, Field(ge=1)]


class LoadLimits(CheckLimits):
    """The load and its limits. Times in seconds, lengths in tokens."""

    streams: Annotated[int, Field(ge=1)] = 100
    """Requests that are kept under way at once."""
    duration_s: Annotated[float, Field(gt=0)] = 1800
    """How long all streams are kept busy, after the ramp."""
    ramp_s: Annotated[float, Field(ge=0)] = 60
    """Time over which the streams start, since a burst queues with good reason."""
    prompt_tokens: Annotated[int, Field(ge=16)] = 1024
    """Length of each prompt."""
    answer_tokens: Annotated[int, Field(ge=8)] = 256
    """Length of each answer."""
    images: bool = False
    """Whether a vision-language model gets a small picture of ours with every prompt, as a chat; False: text alone."""
    max_waiting: Annotated[int, Field(ge=1)] = 5
    """Waiting requests must stay under this at every reading after the ramp."""
    max_failed: Annotated[int, Field(ge=0)] = 0
    """Requests that may fail."""
    max_stall_s: Annotated[float, Field(gt=0)] = 60
    """Longest time without a token while requests run, for one stream and for the engine."""
    max_preemptions: Annotated[int, Field(ge=0)] | None = 0
    """Requests that the engine may put back for want of KV cache; None: not judged."""
    max_degenerate_share: Annotated[float, Field(ge=0, le=1)] = 0.001
    """Answers that repeat one token under load and not alone, among all."""
    max_ttft_p95_s: Annotated[float, Field(gt=0)] | None = None
    """Time to the first token, of 95 % of the answers; None: measured, not judged."""
    max_tpot_p95_s: Annotated[float, Field(gt=0)] | None = None
    """Time for each further token, of 95 % of the answers; None: measured, not judged."""
    require_gpu: bool = True
    """Whether an engine that modelctl starts must have a GPU for its figures to count."""
    max_client_lag_s: Annotated[float, Field(gt=0)] = MAX_LAG_S
    """The client's event loop may be late by this (p99), else its figures do not count."""
    min_achieved_share: Annotated[float, Field(gt=0, le=1)] = MIN_ACHIEVED
    """Share of the streams that the client must have kept busy."""
    code_requests: Annotated[int, Field(ge=0)] = 4
    """After the load each stream sends so many prompts with a code of their own, to find answers that belong to
    another request; 0: not tried."""
    max_lost_codes_share: Annotated[float, Field(ge=0, le=1)] = 0.02
    """Answers without their own code under load, though the same prompt alone has it, among all of them."""
    sweep_streams: tuple[Streams, ...] = (1, 2, 4, 8, 16, 32, 64)
    """Numbers of streams of the sweep that finds the knee; empty: no sweep."""
    sweep_seconds: Annotated[float, Field(gt=0)] = 30
    """How long all streams of one stage are kept busy."""
    sweep_rounds: Annotated[int, Field(ge=1, le=16)] = 3
    """How often the sweep is repeated; the rounds tell how certain the knee is."""
    request_time_limit_s: Annotated[float, Field(gt=0)] = 600
    """After so long a request has failed."""
    scrape_s: Annotated[float, Field(gt=0)] = 1
    """Time between two readings of the engine's metrics."""
    seed: int = 0
    """Of the random choices; the same seed makes the same ones."""
    time_limit_s: Annotated[int, Field(ge=1)] = 7200
    """Seconds after which the check ends without a decision."""


LoadLimitsT = TypeVar("LoadLimitsT", bound=LoadLimits)


class LengthLimits(CheckLimits):
    """A walk over lengths and its limits; lengths count prompt and answer, in tokens."""

    fractions: Annotated[tuple[Fraction, ...], Field(min_length=1)] = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9)
    """Lengths to try, as shares of the stated maximum; the maximum itself is always tried."""
    min_length: Annotated[int, Field(ge=32)] = 128
    """The shortest length; a long prompt's last part of this length is the reference for a strange answer."""
    prompts_per_length: Annotated[int, Field(ge=1)] = 3
    """Prompts of each length."""
    answer_tokens: Annotated[int, Field(ge=8)] = 64
    """Length of each answer."""
    cliff_step: Annotated[int, Field(ge=1)] | None = None
    """A failure is narrowed down until a length that works and one that fails are so many tokens apart; None: one KV
    block of the engine."""
    max_cliff_lengths: Annotated[int, Field(ge=0)] = 16
    """Lengths that are tried at most to narrow a failure down."""
    request_time_limit_s: Annotated[float, Field(gt=0)] = 600
    """After so long a request has failed."""
    kv_tolerance: Annotated[float, Field(ge=0)] = 0.1
    """How far over the computed KV use the measured one may be, as a share."""
    require_computed_kv: bool = True
    """Whether a model whose KV cache modelctl can't compute stays undecided; False: it is only warned of."""
    max_tpot_growth: Annotated[float, Field(gt=1)] | None = None
    """Time per token at the maximum, against the shortest length; None: measured, not judged."""
    max_memory_growth: Annotated[float, Field(ge=0)] = 0.1
    """The engine's peak memory at the maximum may be over that of the shortest length by this share without a
    warning."""
    scrape_s: Annotated[float, Field(gt=0)] = 0.05
    """Time between two readings of the engine's metrics."""
    seed: int = 0
    """Of the random choices; the same seed makes the same ones."""
    time_limit_s: Annotated[int, Field(ge=1)] = 7200
    """Seconds after which the check ends without a decision."""
