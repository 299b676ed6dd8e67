"""A sweep: the same closed load with 1, 2, 4 … streams, several times each, to see where more streams stop paying.

Lengths are fixed and, where the engine allows it, answers too, so that stages differ in nothing but their streams.
Every stage has prompts of its own. A stage is written down when it ends, and a second run goes on behind the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from modelctl.serving.answers import RequestRow, percentile
from modelctl.serving.bodies import Api
from modelctl.serving.client import EngineClient
from modelctl.serving.load import LoadPlan, LoadResult, Tick, run_load
from modelctl.serving.metrics import EngineMetrics
from modelctl.serving.plan import MAX_LAG_S, MIN_ACHIEVED
from modelctl.serving.prompts import PromptMaker

_SERIALS_A_STAGE = 100_000
"""Prompts that one stage can use before it would repeat those of the next."""


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """What is tried: lengths in tokens, times in seconds."""

    streams: tuple[int, ...]
    repeats: int
    stage_s: float
    """How long all streams of a stage are kept busy, after its ramp."""
    ramp_s: float
    prompt_tokens: int
    answer_tokens: int
    scrape_s: float
    exact_answer: bool
    seed: int
    api: Api = "completions"
    image: bool = False
    """Chat: a picture of ours before every text."""
    max_client_lag_s: float = MAX_LAG_S
    """A stage does not count if the client's event loop was later than this (p99)."""
    min_achieved_share: float = MIN_ACHIEVED
    """Nor if the client kept a smaller share of its streams busy."""

    def stages(self) -> Iterator[tuple[int, int, int]]:
        """Number, streams and repeat of every stage; one whole round after the other, so that drift meets all alike."""
        number = 0
        for repeat in range(self.repeats):
            for streams in self.streams:
                yield number, streams, repeat
                number += 1


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What one stage showed. Times in seconds, throughput in written tokens a second; None: the engine did not say."""

    number: int
    streams: int
    repeat: int
    throughput: float
    """Over the time in which all streams were busy; tokens of an answer count by the share of it that fell inside. Of
    embeddings: read tokens."""
    requests: int
    failed: int
    first_failure: str | None
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    tpot_p50_s: float | None
    tpot_p95_s: float | None
    waiting_max: float | None
    kv_usage_max: float | None
    preemptions: float | None
    achieved_streams: float
    client_lag_p99_s: float
    client_fault: str | None
    """Why the client's figures are not to be believed, if so."""
    gave_up: str | None

    @property
    def why_not(self) -> str | None:
        """Why the stage does not count, if so."""
        if self.failed:
            return f"{self.failed} of {self.requests} requests failed: {self.first_failure}"
        return self.client_fault or (None if self.throughput > 0 else "nothing was written while all streams were busy")

    @property
    def counts(self) -> bool:
        """Whether the stage says something of the engine: it answered everything, and the client kept up."""
        return self.why_not is None


async def run_stage(
    client: EngineClient,
    prompts: PromptMaker,
    plan: SweepPlan,
    stage: tuple[int, int, int],
    *,
    on_tick: Callable[[Tick], None],
) -> tuple[Stage, LoadResult]:
    """Put one stage's load on the engine; the whole result is for whoever keeps raw rows."""
    number, streams, repeat = stage
    load = LoadPlan(
        streams=streams,
        duration_s=plan.stage_s,
        ramp_s=plan.ramp_s,
        prompt_tokens=plan.prompt_tokens,
        answer_tokens=plan.answer_tokens,
        scrape_s=plan.scrape_s,
        exact_answer=plan.exact_answer,
        first_serial=number * _SERIALS_A_STAGE,
        api=plan.api,
        image=plan.image,
    )
    result = await run_load(client, prompts, load, on_tick=on_tick)
    return summarise(number, repeat, result, plan), result


def summarise(number: int, repeat: int, result: LoadResult, plan: SweepPlan) -> Stage:
    """The figures of one load as a stage of the plan."""
    good = [row for row in result.rows if row.failure is None]
    failed = [row for row in result.rows if row.failure is not None]
    ttfts = [row.ttft_s for row in good if row.ttft_s is not None]
    tpots = [row.tpot_s for row in good if row.tpot_s is not None]
    readings = result.readings
    return Stage(
        number=number,
        streams=result.plan.streams,
        repeat=repeat,
        throughput=steady_tokens(good, result.steady_s, result.ended_s) / (result.ended_s - result.steady_s),
        requests=len(result.rows),
        failed=len(failed),
        first_failure=failed[0].detail if failed else None,
        ttft_p50_s=percentile(ttfts, 0.5),
        ttft_p95_s=percentile(ttfts, 0.95),
        tpot_p50_s=percentile(tpots, 0.5),
        tpot_p95_s=percentile(tpots, 0.95),
        waiting_max=_most([reading.waiting for reading in readings]),
        kv_usage_max=_most([reading.kv_usage for reading in readings]),
        preemptions=_preempted(result.before, result.after),
        achieved_streams=result.achieved_streams,
        client_lag_p99_s=result.loop_lag_p99_s,
        client_fault=_client_fault(result, plan),
        gave_up=result.gave_up,
    )


def telling(stages: Sequence[Stage], streams: int) -> list[Stage]:
    """The stages of so many streams that count; where none does, all of them."""
    found = [stage for stage in stages if stage.streams == streams]
    return [stage for stage in found if stage.counts] or found


def steady_tokens(rows: Sequence[RequestRow], begin_s: float, end_s: float) -> float:
    """Tokens that were written (of embeddings: read) between two moments; those of an answer are taken to be spread
    evenly over it."""
    total = 0.0
    for row in rows:
        if row.completion_tokens is None:  # an embedding: what was read counts, from sent to done
            first, last, tokens = row.sent_s, row.done_s, row.prompt_tokens or 0
        elif row.first_token_s is None or row.last_token_s is None:
            continue
        else:
            first, last, tokens = row.first_token_s, row.last_token_s, row.completion_tokens
        if last <= first:
            total += tokens if begin_s <= first < end_s else 0
            continue
        total += tokens * max(0.0, min(last, end_s) - max(first, begin_s)) / (last - first)
    return total


def _client_fault(result: LoadResult, plan: SweepPlan) -> str | None:
    late_s, limit_s = result.loop_lag_p99_s, plan.max_client_lag_s
    if late_s > limit_s:
        return f"the load generator was late by {late_s:.3f} s (p99); the limit is {limit_s:g} s"
    busy, streams = result.achieved_streams, result.plan.streams
    if not any(row.failure for row in result.rows) and busy < plan.min_achieved_share * streams:
        return f"the load generator kept {busy:.1f} of {streams} streams busy"
    return None


def _most(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _preempted(before: EngineMetrics | None, after: EngineMetrics | None) -> float | None:
    if before is None or after is None or before.preemptions is None or after.preemptions is None:
        return None
    return after.preemptions - before.preemptions
