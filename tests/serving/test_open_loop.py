from __future__ import annotations

import asyncio
import dataclasses
import itertools
import time
from pathlib import Path
from statistics import fmean, stdev

import pytest

from modelctl.serving.answers import percentile
from modelctl.serving.client import EngineClient
from modelctl.serving.load import LoadPlan, LoadResult, run_load
from modelctl.serving.open_loop import arrivals
from modelctl.serving.prompts import PromptMaker
from tests.support.engine import FaultEngine, Faults

PLAN = LoadPlan(
    streams=64,
    duration_s=0.5,
    ramp_s=0.1,
    prompt_tokens=16,
    answer_tokens=8,
    scrape_s=0.1,
    exact_answer=True,
    rate=40.0,
)


def load(engine: FaultEngine, plan: LoadPlan) -> LoadResult:
    async def run() -> LoadResult:
        async with EngineClient(engine.endpoint, silence_limit_s=60.0, time_limit_s=60.0) as client:
            return await run_load(client, PromptMaker(seed=0), plan, on_tick=lambda tick: None)

    return asyncio.run(run())


def test_arrivals_are_seeded_and_have_the_rate() -> None:
    plan = dataclasses.replace(PLAN, rate=50.0, duration_s=200.0)
    times = list(arrivals(plan))
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert times == list(arrivals(plan))
    assert times != list(arrivals(dataclasses.replace(plan, seed=1)))
    assert len(times) == pytest.approx(10_000, rel=0.04)
    assert stdev(gaps) == pytest.approx(fmean(gaps), rel=0.05)  # as exponential times have it
    even = list(arrivals(dataclasses.replace(plan, arrivals="even", rate=4.0, duration_s=0.9, ramp_s=0.1)))
    assert even == [0.0, 0.25, 0.5, 0.75]


@pytest.mark.slow
def test_requests_are_sent_when_due_and_do_not_wait_for_earlier_ones(tmp_path: Path) -> None:
    # One seat, 80 ms an answer, one request every 25 ms: a closed loop would slow down, this one queues.
    plan = dataclasses.replace(PLAN, arrivals="even")
    with FaultEngine(tmp_path, Faults(waits_over=1), token_s=0.01) as engine:
        result = load(engine, plan)
    due = sorted(row.intended_s - result.started_s for row in result.rows)
    assert due == pytest.approx([number / 40 for number in range(24)], abs=1e-6)
    assert all(row.failure is None for row in result.rows)
    last_sent_s = max(row.sent_s for row in result.rows)
    assert sum(row.done_s < last_sent_s for row in result.rows) < 16  # a closed loop would have 23 answers by then
    latencies = [row.latency_s for row in sorted(result.rows, key=lambda row: row.serial)]
    assert latencies[-1] > 3 * latencies[0]
    assert max(reading.waiting or 0 for reading in result.readings) > 5


@pytest.mark.slow
def test_what_there_is_no_room_for_is_a_row_of_its_own(tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, streams=2, arrivals="even")
    with FaultEngine(tmp_path, Faults(waits_over=1), token_s=0.01) as engine:
        result = load(engine, plan)
    assert len(result.rows) == 24
    assert 0 < result.not_sent < 24
    assert result.not_sent == sum(row.failure is not None for row in result.rows)
    assert len(engine.requests) == 24 - result.not_sent


@pytest.mark.slow
def test_a_client_that_was_late_shows_in_the_latency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = PromptMaker.make

    def make(self: PromptMaker, serial: int, tokens: int) -> object:
        time.sleep(0.05)  # every prompt takes twice as long as there is between two
        return slow(self, serial, tokens)

    monkeypatch.setattr(PromptMaker, "make", make)
    with FaultEngine(tmp_path) as engine:
        result = load(engine, dataclasses.replace(PLAN, arrivals="even"))
    assert (result.late_p99_s or 0) > 0.2
    last = max(result.rows, key=lambda row: row.intended_s)
    assert last.latency_s > last.done_s - last.sent_s + 0.2
    assert (percentile([row.ttft_s or 0 for row in result.rows], 0.99) or 0) > 0.2


def test_an_engine_that_is_gone_ends_an_open_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelctl.serving.open_loop.GIVE_UP_AFTER", 0.1)
    with FaultEngine(tmp_path) as engine:
        pass
    result = load(engine, dataclasses.replace(PLAN, duration_s=30.0))
    assert "takes no connections" in (result.gave_up or "")
    assert len(result.rows) < 600  # of 1200
