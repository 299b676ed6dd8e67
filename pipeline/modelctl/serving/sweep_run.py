"""Runs a sweep on an engine, stage by stage, each written down as it ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from modelctl.errors import CannotDecideError
from modelctl.progress import Progress
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.knee import Knee, Step, knee, steps
from modelctl.serving.load import Tick
from modelctl.serving.load_bar import LoadBar, answered
from modelctl.serving.prompting import prompts_for
from modelctl.serving.sweep import Stage, SweepPlan, run_stage
from modelctl.serving.sweep_record import SweepRecord


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """All stages of a sweep, and what they say together."""

    stages: tuple[Stage, ...]
    steps: tuple[Step, ...]
    knee: Knee | None


def sweep(
    endpoint: Endpoint, plan: SweepPlan, record: SweepRecord, *, progress: Progress, silence_limit_s: float = 60.0
) -> SweepResult:
    """Run the stages that `record` lacks. Raises `CannotDecideError` when a request is longer than the engine serves,
    or the engine takes no more connections; `InputError` when the record is another sweep's."""
    length = plan.prompt_tokens + plan.answer_tokens
    if endpoint.max_model_len is not None and length > endpoint.max_model_len:
        raise CannotDecideError(
            f"a request takes {length} tokens and the engine serves {endpoint.max_model_len}",
            remedy="lower --prompt-tokens or --answer-tokens",
        )
    done = record.open(endpoint, plan)
    if done:
        progress.note(f"{len(done)} stages are in {record.folder} already; the sweep goes on behind them")
    left = [stage for stage in plan.stages() if stage[0] >= len(done)]
    if left:
        asyncio.run(_run(endpoint, plan, left, record, progress, silence_limit_s))
    return judged(record.stages())


def judged(stages: tuple[Stage, ...]) -> SweepResult:
    """What stages say together."""
    return SweepResult(stages=stages, steps=steps(stages), knee=knee(stages))


async def _run(
    endpoint: Endpoint,
    plan: SweepPlan,
    left: list[tuple[int, int, int]],
    record: SweepRecord,
    progress: Progress,
    silence_limit_s: float,
) -> None:
    total = len(left) * (plan.ramp_s + plan.stage_s)
    async with EngineClient(endpoint, silence_limit_s=silence_limit_s) as client:
        prompts = await prompts_for(client, seed=plan.seed, api=plan.api)
        with progress.task("sweep", total=total, unit="seconds") as task:
            for number, streams, repeat in left:
                label = f"{streams} streams, round {repeat + 1} of {plan.repeats}: "
                end_s = plan.ramp_s + plan.stage_s
                bar = LoadBar(task, partial(_labelled, label), end_s=end_s)
                stage, result = await run_stage(client, prompts, plan, (number, streams, repeat), on_tick=bar)
                bar.reach(end_s)
                if stage.gave_up is None:
                    record.keep(stage, result)
                else:
                    record.keep_requests(stage, result)
                    raise CannotDecideError(
                        f"at {streams} streams {stage.gave_up}",
                        remedy="look at the engine's log; once it runs again the same command goes on with this stage",
                    )


def _labelled(label: str, tick: Tick) -> str:
    """Live figures for the sweep's progress bar."""
    words = label + answered(tick)
    if tick.metrics is not None and tick.metrics.waiting is not None:
        words += f", {tick.metrics.waiting:.0f} waiting"
    return words
