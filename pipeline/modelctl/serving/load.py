"""A closed loop: N streams that each send the next request when the last one is answered, for T seconds after a ramp.

Streams start one after the other over the ramp, since a burst at the start queues with good reason. Requests under
way at the end are finished. The client watches itself: late event loops and streams that were not kept busy are the
client's fault, not the model's.
"""

from __future__ import annotations

import array
import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from modelctl.serving.answers import RequestRow, percentile
from modelctl.serving.client import EngineClient
from modelctl.serving.metrics import EngineMetrics, Scraper, fetch_metrics
from modelctl.serving.prompts import PromptMaker

_LAG_INTERVAL_S = 0.05
RETRY_S = 1.0
"""Pause of a stream after a failure, in seconds."""
_GIVE_UP_AFTER = 3
_TICK_S = 1.0


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """How much load: lengths in tokens, times in seconds."""

    streams: int
    duration_s: float
    """After the ramp."""
    ramp_s: float
    prompt_tokens: int
    answer_tokens: int
    scrape_s: float
    exact_answer: bool
    first_serial: int = 0
    """Number of the first prompt; loads on one engine that must not share prompts begin far apart."""


@dataclass(frozen=True, kw_only=True)
class Tick:
    """Live figures for whoever waits."""

    elapsed_s: float
    answered: int
    failed: int
    metrics: EngineMetrics | None


@dataclass(frozen=True, kw_only=True)
class LoadResult:
    """What one load saw. `started_s` to `steady_s` was the ramp, `steady_s` to `ended_s` is judged for queues and
    rates."""

    plan: LoadPlan
    rows: tuple[RequestRow, ...]
    gaps_s: Sequence[float]
    """Inter-chunk latencies of all good answers."""
    before: EngineMetrics | None
    readings: tuple[EngineMetrics, ...]
    missed_readings: int
    after: EngineMetrics | None
    started_s: float
    steady_s: float
    ended_s: float
    loop_lag_p99_s: float
    gave_up: str | None
    """Why the load ended early, when the engine took no more connections."""

    @property
    def achieved_streams(self) -> float:
        """Requests in flight, averaged over the steady time."""
        width = self.ended_s - self.steady_s
        if width <= 0:
            return 0.0
        busy = sum(max(0.0, min(row.done_s, self.ended_s) - max(row.sent_s, self.steady_s)) for row in self.rows)
        return busy / width


@dataclass(kw_only=True)
class _State:
    serials: itertools.count[int]
    rows: list[RequestRow] = field(default_factory=list)
    gaps: array.array[float] = field(default_factory=lambda: array.array("f"))
    lags: array.array[float] = field(default_factory=lambda: array.array("f"))
    failed: int = 0
    gave_up: str | None = None


async def run_load(
    client: EngineClient, prompts: PromptMaker, plan: LoadPlan, *, on_tick: Callable[[Tick], None]
) -> LoadResult:
    """Put the load on and wait for its end; `on_tick` is called once a second."""
    state = _State(serials=itertools.count(plan.first_serial))
    before = await fetch_metrics(client)
    started = client.now()
    async with Scraper(client, interval_s=plan.scrape_s) as scraper:
        helpers = [
            asyncio.create_task(_watch_lag(client, state)),
            asyncio.create_task(_tick(client, scraper, state, started, on_tick)),
        ]
        streams = [
            asyncio.create_task(_stream(client, prompts, plan, state, number, started))
            for number in range(plan.streams)
        ]
        try:
            await asyncio.gather(*streams)
        finally:
            for task in (*streams, *helpers):
                task.cancel()
            ended = await asyncio.gather(*streams, *helpers, return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, Exception):
                raise outcome
    after = await fetch_metrics(client)
    return LoadResult(
        plan=plan,
        rows=tuple(state.rows),
        gaps_s=state.gaps,
        before=before,
        readings=tuple(scraper.readings),
        missed_readings=scraper.missed,
        after=after,
        started_s=started,
        steady_s=started + plan.ramp_s,
        ended_s=started + plan.ramp_s + plan.duration_s,
        loop_lag_p99_s=percentile(state.lags, 0.99) or 0.0,
        gave_up=state.gave_up,
    )


async def _stream(
    client: EngineClient, prompts: PromptMaker, plan: LoadPlan, state: _State, number: int, started: float
) -> None:
    begin = started + plan.ramp_s * number / plan.streams
    end = started + plan.ramp_s + plan.duration_s
    await asyncio.sleep(max(0.0, begin - client.now()))
    intended = begin
    refused = 0
    while client.now() < end and state.gave_up is None:
        serial = next(state.serials)
        prompt = prompts.make(serial, plan.prompt_tokens)
        answer = await client.complete(
            prompt.content,
            answer_tokens=plan.answer_tokens,
            exact_answer=plan.exact_answer,
            stream=number,
            serial=serial,
            intended_s=intended,
        )
        state.rows.append(answer.row)
        intended = answer.row.done_s
        if answer.row.failure is None:
            refused = 0
            state.gaps.extend(answer.gaps_s)
            continue
        state.failed += 1
        refused = refused + 1 if answer.row.failure == "connect" else 0
        if refused >= _GIVE_UP_AFTER:
            state.gave_up = f"the engine takes no connections: {answer.row.detail}"
        # A failed answer comes at once; without a pause one dead engine would make a hundred thousand rows.
        await asyncio.sleep(RETRY_S)
        intended = client.now()


async def _watch_lag(client: EngineClient, state: _State) -> None:
    while True:
        due = client.now() + _LAG_INTERVAL_S
        await asyncio.sleep(_LAG_INTERVAL_S)
        state.lags.append(client.now() - due)


async def _tick(
    client: EngineClient, scraper: Scraper, state: _State, started: float, on_tick: Callable[[Tick], None]
) -> None:
    while True:
        await asyncio.sleep(_TICK_S)
        latest = scraper.readings[-1] if scraper.readings else None
        on_tick(
            Tick(
                elapsed_s=client.now() - started,
                answered=len(state.rows) - state.failed,
                failed=state.failed,
                metrics=latest,
            )
        )
