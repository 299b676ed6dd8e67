from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import psutil
import pytest

from modelctl.errors import CannotDecideError
from modelctl.serving.client import EngineClient
from modelctl.serving.load import LoadPlan, LoadResult, Tick, run_load
from modelctl.serving.plan import process_count
from modelctl.serving.prompts import PromptMaker
from modelctl.serving.shares import Gaps, merged
from tests.support.engine import FaultEngine, Faults

PLAN = LoadPlan(
    streams=5,
    duration_s=1.2,
    ramp_s=0.1,
    prompt_tokens=16,
    answer_tokens=8,
    scrape_s=0.1,
    exact_answer=True,
    processes=2,
)


def load(engine: FaultEngine, plan: LoadPlan = PLAN, ticks: list[Tick] | None = None) -> LoadResult:
    async def run() -> LoadResult:
        async with EngineClient(engine.endpoint, silence_limit_s=60.0, time_limit_s=60.0) as client:
            return await run_load(
                client, PromptMaker(seed=0), plan, on_tick=(ticks if ticks is not None else []).append
            )

    return asyncio.run(run())


def load_processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.parametrize(
    ("figures", "cores", "count"),
    [
        ({"streams": 100}, 16, 1),
        ({"streams": 257}, 16, 2),
        ({"streams": 1000}, 16, 4),
        ({"streams": 1000}, 2, 1),
        ({"streams": 1000}, 1, 1),
        ({"streams": 1000, "rate": 10.0, "answer_tokens": 380}, 16, 1),
        ({"streams": 1000, "rate": 50.0, "answer_tokens": 380}, 16, 3),
        ({"streams": 2, "processes": 8}, 1, 2),
    ],
)
def test_how_many_processes_it_starts_by_itself(figures: dict[str, float], cores: int, count: int) -> None:
    plan = dataclasses.replace(PLAN, **{"processes": None, **figures})  # type: ignore[arg-type]
    assert process_count(plan, cores=cores) == count


def test_gaps_are_thinned_evenly_and_alike() -> None:
    one, other = Gaps(limit=100), Gaps(limit=100)
    for number in range(50):
        one.extend([float(number * 7 + step) for step in range(7)])
    other.extend([0.5] * 10)
    assert one.stride == 4
    assert list(one.values) == [float(number) for number in range(0, 350, 4)]
    assert list(merged([one, other]))[-3:] == [0.5] * 3


@pytest.mark.slow
def test_two_processes_share_streams_prompts_and_one_clock(tmp_path: Path) -> None:
    ticks: list[Tick] = []
    with FaultEngine(tmp_path, token_s=0.005) as engine:
        result = load(engine, ticks=ticks)
        prompts = [request["prompt"] for request in engine.requests]
    assert all(row.failure is None for row in result.rows)
    assert {row.stream for row in result.rows} <= set(range(5))
    assert {row.stream % 2 for row in result.rows} == {0, 1}
    assert len({row.serial for row in result.rows}) == len(result.rows) == len(set(prompts)) == len(prompts)
    assert {row.serial % 2 for row in result.rows} == {0, 1}
    assert 1 < result.achieved_streams < 5.5
    assert len(result.gaps_s) == 7 * len(result.rows)
    assert all(result.started_s <= row.sent_s < result.ended_s for row in result.rows)
    assert [row.done_s for row in result.rows] == sorted(row.done_s for row in result.rows)
    assert len(result.cpu_shares) == 2
    assert result.loop_lag_p99_s > 0
    assert ticks
    assert ticks[-1].answered > 0
    assert not load_processes()


@pytest.mark.slow
def test_two_processes_share_the_arrivals_of_a_rate(tmp_path: Path) -> None:
    with FaultEngine(tmp_path) as engine:
        result = load(engine, dataclasses.replace(PLAN, rate=50.0, arrivals="even", streams=50))
    due = sorted(row.intended_s - result.started_s for row in result.rows)
    assert due == pytest.approx([number / 50 for number in range(65)], abs=1e-6)


@pytest.mark.slow
def test_processes_give_up_together_when_the_engine_is_gone(tmp_path: Path) -> None:
    with FaultEngine(tmp_path, Faults(dies_at=20)) as engine:
        result = load(engine, dataclasses.replace(PLAN, duration_s=60.0))
    assert "takes no connections" in (result.gave_up or "")


@pytest.mark.slow
def test_a_process_that_is_killed_is_an_error_and_not_a_result(tmp_path: Path) -> None:
    async def run(engine: FaultEngine) -> None:
        async with EngineClient(engine.endpoint) as client:
            loading = asyncio.create_task(
                run_load(
                    client, PromptMaker(seed=0), dataclasses.replace(PLAN, duration_s=60.0), on_tick=lambda tick: None
                )
            )
            while not engine.requests:
                await asyncio.sleep(0.1)
            load_processes()[0].kill()
            await loading

    with FaultEngine(tmp_path) as engine, pytest.raises(CannotDecideError, match="ended by itself"):
        asyncio.run(run(engine))
