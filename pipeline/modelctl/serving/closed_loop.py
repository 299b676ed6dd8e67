"""A closed loop: streams that each send the next request when the last one is answered."""

from __future__ import annotations

import asyncio
import itertools

from modelctl.serving.client import EngineClient
from modelctl.serving.plan import LoadPlan
from modelctl.serving.prompts import PromptMaker
from modelctl.serving.shares import GIVE_UP_AFTER, Driven, Share, gone, send

RETRY_S = 1.0
"""Pause of a stream after a failure, in seconds."""


async def run_closed(
    client: EngineClient, prompts: PromptMaker, plan: LoadPlan, share: Share, driven: Driven, started_s: float
) -> None:
    """Run this process's streams to the plan's end."""
    serials = itertools.count(plan.first_serial + share.index, share.of)
    streams = [
        asyncio.create_task(_stream(client, prompts, plan, driven, serials, number, started_s))
        for number in range(plan.streams)
        if share.has(number)
    ]
    try:
        await asyncio.gather(*streams)
    finally:
        for task in streams:
            task.cancel()
        await asyncio.gather(*streams, return_exceptions=True)


async def _stream(
    client: EngineClient,
    prompts: PromptMaker,
    plan: LoadPlan,
    driven: Driven,
    serials: itertools.count[int],
    number: int,
    started_s: float,
) -> None:
    begin = started_s + plan.ramp_s * number / plan.streams
    end = started_s + plan.end_s
    await asyncio.sleep(max(0.0, begin - client.now()))
    intended = begin
    refused = 0
    while client.now() < end and not driven.ending:
        serial = next(serials)
        answer = await send(client, prompts.make(serial, plan.prompt_tokens).content, plan, serial, number, intended)
        driven.take(answer)
        intended = answer.row.done_s
        if answer.row.failure is None:
            refused = 0
            continue
        refused = refused + 1 if answer.row.failure == "connect" else 0
        if refused >= GIVE_UP_AFTER:
            driven.gave_up = gone(answer.row)
        # A failed answer comes at once; without a pause one dead engine would make a hundred thousand rows.
        await asyncio.sleep(RETRY_S)
        intended = client.now()
