"""N streams for T seconds: short queues, no errors, no stall, no degenerate or mixed-up answers; and how fast it is.

Whether the engine's flags and KV pool allow the streams at all is computed first: when they don't, that is the
finding, and no half hour is spent to see it. A client that could not keep up makes the outcome undecided, never the
model's fault. Behind the load come prompts that tell answers apart, and the sweep that finds the knee.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, Literal

from modelctl.checks.base import CheckContext, Coverage, Observation
from modelctl.checks.limits import ConcurrencyLimits
from modelctl.checks.stress.crosstalk import ALONE, judge_crosstalk, look_for_crosstalk
from modelctl.checks.stress.figures import measure_load
from modelctl.checks.stress.identity import measure_identity
from modelctl.checks.stress.images import measure_image
from modelctl.checks.stress.judge import judge_load
from modelctl.checks.stress.knee import find_knee
from modelctl.checks.stress.on_base import judge_base
from modelctl.checks.stress.seats import judge_size
from modelctl.checks.stress.session import Notes, api_of, died, exact_answers, keep_evidence, refused
from modelctl.errors import CannotDecideError
from modelctl.serving.client import EngineClient
from modelctl.serving.command import gpu_devices
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.engine import EngineRefusedError
from modelctl.serving.identity import read_identity
from modelctl.serving.load import LoadPlan, LoadResult, Tick, run_load
from modelctl.serving.load_bar import LoadBar, answered
from modelctl.serving.metrics import fetch_metrics
from modelctl.serving.prompting import prompts_for
from modelctl.serving.prompts import PromptMaker, prompt_maker

_SUSPECTS_TRIED = 20


class ConcurrencyCheck:
    """The check."""

    id: ClassVar[str] = "concurrency"
    decides: ClassVar[str] = "The stated number of streams is served without queues, errors, stalls or babble."
    scope: ClassVar[Literal["tree", "release"]] = "release"
    headline: ClassVar[tuple[str, ...]] = ("waiting-max", "ttft-p95")

    def run(self, context: CheckContext[ConcurrencyLimits]) -> Observation:
        """Put the load on. Raises `CannotDecideError` when no engine can be had."""
        notes = Notes(check=self.id)
        if not judge_base(context, notes):
            return notes.unstarted(unit="requests")
        try:
            endpoint = context.resources.engine()
        except EngineRefusedError as error:
            return refused(context, notes, error, unit="requests")
        if context.limits.require_gpu and endpoint.managed and not gpu_devices():
            raise CannotDecideError(
                "this machine has no GPU, and the policy wants figures of the hardware that will serve",
                remedy="run the check on a GPU runner, or name a running engine with --endpoint",
            )
        coverage, good = asyncio.run(_observe(context, endpoint, notes))
        if good is not None and context.limits.sweep_streams:
            find_knee(context, endpoint, notes, started_at=good.before.started_at if good.before else None)
        return notes.observation(endpoint, coverage)


CHECK = ConcurrencyCheck()


async def _observe(
    context: CheckContext[ConcurrencyLimits], endpoint: Endpoint, notes: Notes
) -> tuple[Coverage, LoadResult | None]:
    """Load the engine and compare answers: how many were answered, and the load where a sweep can follow it."""
    limits = context.limits
    api = api_of(context, images=limits.images)
    plan = LoadPlan(
        streams=limits.streams,
        duration_s=limits.duration_s,
        ramp_s=limits.ramp_s,
        prompt_tokens=limits.prompt_tokens,
        answer_tokens=limits.answer_tokens,
        scrape_s=limits.scrape_s,
        exact_answer=exact_answers(endpoint),
        api=api,
        image=api == "chat",
    )
    async with EngineClient(
        endpoint, silence_limit_s=limits.max_stall_s, time_limit_s=limits.request_time_limit_s
    ) as client:
        measure_identity(await read_identity(client), notes, gpu=endpoint.managed and bool(gpu_devices()))
        image_tokens = await measure_image(client, notes) if plan.image else 0
        judge_size(context, endpoint, await fetch_metrics(client), notes, image_tokens=image_tokens)
        if notes.findings:
            return Coverage(unit="requests", seen=0, total=limits.streams), None
        prompts = await prompts_for(client, seed=limits.seed, api=plan.api)
        with context.progress.task("load", total=plan.end_s, unit="seconds") as task:
            result = await run_load(client, prompts, plan, on_tick=LoadBar(task, _live, end_s=plan.end_s))
        failed = [row for row in result.rows if row.failure is not None]
        death = await died(client) if failed else None
        degenerate = 0.0 if death else await _degenerate_share(client, prompts, result)
        judge_load(limits, result, notes, death=death, degenerate_share=degenerate)
        measure_load(limits, result, notes, degenerate_share=degenerate)
        keep_evidence(context, endpoint, result.rows, result.readings)
        coverage = Coverage(unit="requests", seen=len(result.rows) - len(failed), total=len(result.rows))
        if failed or plan.api == "embeddings":
            why = "requests failed under load" if failed else "vectors have no codes and no knee"
            if limits.code_requests or limits.sweep_streams:
                notes.warnings.append(f"neither cross-talk nor a sweep was tried: {why}")
            return coverage, None
        if limits.code_requests:
            total = ALONE + limits.streams * limits.code_requests
            texts = prompts if plan.api == "completions" else await prompt_maker(client, seed=limits.seed)
            with context.progress.task("cross-talk", total=total, unit="requests") as task:
                judge_crosstalk(limits, await look_for_crosstalk(client, texts, limits, task), notes)
    return coverage, result


def _live(tick: Tick) -> str:
    """Live figures for the load's progress bar."""
    words = answered(tick)
    if tick.metrics is not None and tick.metrics.running is not None and tick.metrics.waiting is not None:
        words += f", {tick.metrics.running:.0f} running, {tick.metrics.waiting:.0f} waiting"
    return words


async def _degenerate_share(client: EngineClient, prompts: PromptMaker, result: LoadResult) -> float:
    """The share of answers that repeat one token though the same prompt, sent alone, does not; from a sample of
    suspects."""
    suspects = [row for row in result.rows if row.repeats_one_token]
    tried = suspects[:: max(1, len(suspects) // _SUSPECTS_TRIED)][:_SUSPECTS_TRIED]
    if not tried:
        return 0.0
    only_under_load = 0
    for row in tried:
        prompt = prompts.make(row.serial, result.plan.prompt_tokens)
        alone = await client.complete(
            prompt.content, answer_tokens=result.plan.answer_tokens, exact_answer=result.plan.exact_answer,
            serial=row.serial, api=result.plan.api, image=result.plan.image,
        )  # fmt: skip
        only_under_load += alone.row.failure is None and not alone.row.repeats_one_token
    good = sum(row.failure is None for row in result.rows)
    return only_under_load / len(tried) * len(suspects) / good
