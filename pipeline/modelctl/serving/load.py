"""Puts a load on an engine and watches both sides while it lasts.

A closed loop keeps N streams busy, an open loop sends at a rate; requests under way at the end are finished. Streams
start one after the other over the ramp, since a burst at the start queues with good reason. The client watches itself:
late event loops, a core that is used up and streams that were not kept busy are the client's fault, not the model's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TypeVar

from modelctl.serving.answers import RequestRow, percentile
from modelctl.serving.client import EngineClient
from modelctl.serving.driving import drive
from modelctl.serving.metrics import EngineMetrics, Scraper, fetch_metrics
from modelctl.serving.plan import LoadPlan, process_count
from modelctl.serving.processes import LoadProcesses
from modelctl.serving.prompts import PromptMaker
from modelctl.serving.shares import Counts, Driven, Share, merged

__all__ = ["LoadPlan", "LoadResult", "Tick", "run_load"]

ValueT = TypeVar("ValueT")
_TICK_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Tick:
    """Live figures for whoever waits."""

    elapsed_s: float
    answered: int
    failed: int
    metrics: EngineMetrics | None


@dataclass(frozen=True, kw_only=True, repr=False)  # asyncio words the results of its tasks, and this one is long
class LoadResult:
    """What one load saw. `started_s` to `steady_s` was the ramp, `steady_s` to `ended_s` is judged for queues and
    rates."""

    plan: LoadPlan
    rows: tuple[RequestRow, ...]
    gaps_s: Sequence[float]
    """Inter-chunk latencies of all good answers, evenly thinned beyond some millions."""
    before: EngineMetrics | None
    readings: tuple[EngineMetrics, ...]
    missed_readings: int
    after: EngineMetrics | None
    started_s: float
    steady_s: float
    ended_s: float
    loop_lag_p99_s: float
    """Of the process that was latest."""
    gave_up: str | None
    """Why the load ended early, when the engine took no more connections."""
    cpu_shares: tuple[float, ...] = ()
    """Of a core, by process of the client."""

    @property
    def achieved_streams(self) -> float:
        """Requests in flight, averaged over the steady time."""
        width = self.ended_s - self.steady_s
        if width <= 0:
            return 0.0
        busy = sum(max(0.0, min(row.done_s, self.ended_s) - max(row.sent_s, self.steady_s)) for row in self.rows)
        return busy / width

    @property
    def not_sent(self) -> int:
        """Requests of an open loop that the client had no room for."""
        return sum(row.failure == "not-sent" for row in self.rows)

    @property
    def late_p99_s(self) -> float | None:
        """How long after its time a request was sent (99th percentile)."""
        return percentile([row.sent_s - row.intended_s for row in self.rows], 0.99)


async def run_load(
    client: EngineClient, prompts: PromptMaker, plan: LoadPlan, *, on_tick: Callable[[Tick], None]
) -> LoadResult:
    """Put the load on and wait for its end; `on_tick` is called once a second.

    Raises `CannotDecideError` when a process of the load generator can't be started or dies.
    """
    count = process_count(plan)
    if count == 1:
        driven = Driven()
        before = await fetch_metrics(client)
        started = client.now()
        async with Scraper(client, interval_s=plan.scrape_s) as scraper:
            load = drive(client, prompts, plan, Share(), driven, started_s=started)
            await _watched(load, lambda: [driven.counts], client, scraper, started, on_tick)
        shares = [driven]
    else:
        async with LoadProcesses(client, prompts, plan, count) as processes:
            before = await fetch_metrics(client)
            started = processes.start()
            async with Scraper(client, interval_s=plan.scrape_s) as scraper:
                shares = await _watched(processes.result(), lambda: processes.counts, client, scraper, started, on_tick)
    after = await fetch_metrics(client)
    return LoadResult(
        plan=plan,
        rows=tuple(sorted((row for share in shares for row in share.rows), key=lambda row: row.done_s)),
        gaps_s=merged([share.gaps for share in shares]),
        before=before,
        readings=tuple(scraper.readings),
        missed_readings=scraper.missed,
        after=after,
        started_s=started,
        steady_s=started + plan.ramp_s,
        ended_s=started + plan.end_s,
        loop_lag_p99_s=max(percentile(share.lags, 0.99) or 0.0 for share in shares),
        gave_up=next((share.gave_up for share in shares if share.gave_up is not None), None),
        cpu_shares=tuple(share.cpu_share for share in shares),
    )


async def _watched(
    load: Coroutine[object, object, ValueT],
    counts: Callable[[], Sequence[Counts]],
    client: EngineClient,
    scraper: Scraper,
    started_s: float,
    on_tick: Callable[[Tick], None],
) -> ValueT:
    """Wait for the load; an error in showing it is an error of the load."""
    running = asyncio.create_task(load)
    ticking = asyncio.create_task(_tick(counts, client, scraper, started_s, on_tick))
    try:
        await asyncio.wait((running, ticking), return_when=asyncio.FIRST_COMPLETED)
        if ticking.done():
            ticking.result()
        return await running
    finally:
        for task in (running, ticking):
            task.cancel()
        await asyncio.gather(running, ticking, return_exceptions=True)


async def _tick(
    counts: Callable[[], Sequence[Counts]],
    client: EngineClient,
    scraper: Scraper,
    started_s: float,
    on_tick: Callable[[Tick], None],
) -> None:
    while True:
        await asyncio.sleep(_TICK_S)
        known = counts()
        on_tick(
            Tick(
                elapsed_s=client.now() - started_s,
                answered=sum(each.answered for each in known),
                failed=sum(each.failed for each in known),
                metrics=scraper.readings[-1] if scraper.readings else None,
            )
        )
