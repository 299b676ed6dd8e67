from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from modelctl.serving.client import EngineClient
from modelctl.serving.load import LoadPlan, LoadResult, Tick, run_load
from modelctl.serving.prompts import prompt_maker
from tests.support.engine import FaultEngine, Faults

PLAN = LoadPlan(
    streams=6, duration_s=0.6, ramp_s=0.3, prompt_tokens=32, answer_tokens=16, scrape_s=0.05, exact_answer=True
)


def load(engine: FaultEngine, plan: LoadPlan = PLAN, ticks: list[Tick] | None = None) -> LoadResult:
    async def run() -> LoadResult:
        async with EngineClient(engine.endpoint, silence_limit_s=60.0, time_limit_s=60.0) as client:
            prompts = await prompt_maker(client, seed=0)
            return await run_load(client, prompts, plan, on_tick=(ticks if ticks is not None else []).append)

    return asyncio.run(run())


def test_streams_ramp_up_stay_busy_and_finish(tmp_path: Path) -> None:
    with FaultEngine(tmp_path, token_s=0.005) as engine:
        result = load(engine)
    assert all(row.failure is None for row in result.rows)
    assert {row.stream for row in result.rows} == set(range(6))
    first = {row.stream: row.sent_s - result.started_s for row in reversed(result.rows)}
    assert sorted(first, key=lambda number: first[number]) == list(range(6))
    assert all(first[number] > 0.3 * number / 6 - 0.01 for number in range(6))
    assert 1 < result.achieved_streams < 6.5
    assert len({row.serial for row in result.rows}) == len(result.rows)
    assert len(result.gaps_s) == 15 * len(result.rows)
    assert result.before is not None
    assert result.after is not None
    assert len(result.readings) > 2


def test_live_figures_come_every_second(tmp_path: Path) -> None:
    ticks: list[Tick] = []
    with FaultEngine(tmp_path) as engine:
        load(engine, dataclasses.replace(PLAN, duration_s=1.2, ramp_s=0.0), ticks)
    assert ticks
    assert all(tick.elapsed_s > number for number, tick in enumerate(ticks, start=1))
    assert ticks[0].answered > 0
    assert ticks[0].metrics is not None


def test_a_dead_engine_ends_the_load_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelctl.serving.closed_loop.RETRY_S", 0.02)
    with FaultEngine(tmp_path, Faults(dies_at=40)) as engine:
        result = load(engine, dataclasses.replace(PLAN, duration_s=30.0))
    assert "takes no connections" in (result.gave_up or "")
    assert result.after is None
    assert len(result.rows) < 100


def test_latency_counts_from_the_intended_start_when_requests_wait_for_a_seat(tmp_path: Path) -> None:
    with FaultEngine(tmp_path, Faults(waits_over=1), token_s=0.005) as engine:
        result = load(engine, dataclasses.replace(PLAN, ramp_s=0.0))
    waited = [row for row in result.rows if (row.ttft_s or 0) > 0.1]
    assert waited
    assert max(reading.waiting or 0 for reading in result.readings) in (4, 5)
