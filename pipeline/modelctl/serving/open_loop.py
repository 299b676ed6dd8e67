"""An open loop: requests are sent when they are due, at a rate, and never wait for earlier ones.

A closed loop slows down with the engine and so hides its queue (coordinated omission). Here latency counts from the
moment that the plan wanted a request sent, whatever the engine or the client was doing then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

from modelctl.serving.answers import Answer, RequestRow
from modelctl.serving.client import EngineClient
from modelctl.serving.plan import LoadPlan
from modelctl.serving.prompts import PromptMaker
from modelctl.serving.shares import GIVE_UP_AFTER, Driven, Share, gone, send


def arrivals(plan: LoadPlan) -> Iterator[float]:
    """When requests are due, in seconds after the start, up to the plan's end; the same plan gives the same ones.

    Even: one every 1/rate. Poisson: the times between are exponential with mean 1/rate.
    """
    rate = plan.rate
    if rate is None:
        raise AssertionError("an open loop has a rate")
    chooser = random.Random(f"arrivals/{plan.seed}")  # noqa: S311 - times of test requests, no secret
    due, number = 0.0, 0
    while due < plan.end_s:
        yield due
        number += 1
        due = number / rate if plan.arrivals == "even" else due + chooser.expovariate(rate)


async def run_open(
    client: EngineClient, prompts: PromptMaker, plan: LoadPlan, share: Share, driven: Driven, started_s: float
) -> None:
    """Send this process's share of all arrivals, then wait for the last answers."""
    room = -(-plan.streams // share.of)
    state = _State(client=client, plan=plan, driven=driven)
    under_way: set[asyncio.Task[None]] = set()
    try:
        for number, offset in enumerate(arrivals(plan)):
            if not share.has(number):
                continue
            serial, due = plan.first_serial + number, started_s + offset
            prompt = prompts.make(serial, plan.prompt_tokens).content  # before it is due, so that it is sent on time
            await asyncio.sleep(max(0.0, due - client.now()))
            if driven.ending:
                break
            if len(under_way) >= room:
                driven.take(Answer(row=_not_sent(serial, due, client.now(), plan.streams), text="", gaps_s=()))
                continue
            task = asyncio.create_task(state.one(prompt, serial, due))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        while under_way and not driven.ending:
            await asyncio.wait(under_way, timeout=1.0)
    finally:
        left = list(under_way)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class _State:
    """What the requests of one process share."""

    def __init__(self, *, client: EngineClient, plan: LoadPlan, driven: Driven) -> None:
        self._client = client
        self._plan = plan
        self._driven = driven
        self._refused_since_s: float | None = None

    async def one(self, prompt: str | tuple[int, ...], serial: int, due: float) -> None:
        answer = await send(self._client, prompt, self._plan, serial, 0, due)
        self._driven.take(answer)
        if answer.row.failure != "connect":
            self._refused_since_s = None
            return
        now = self._client.now()
        if self._refused_since_s is None:
            self._refused_since_s = now
        elif now - self._refused_since_s > GIVE_UP_AFTER and self._driven.gave_up is None:
            self._driven.gave_up = gone(answer.row)


def _not_sent(serial: int, due: float, now: float, limit: int) -> RequestRow:
    return RequestRow(
        stream=0, serial=serial, intended_s=due, sent_s=now, first_byte_s=None, first_token_s=None, last_token_s=None,
        done_s=now, status=None, finish_reason=None, prompt_tokens=None, completion_tokens=None, chunks=0,
        longest_gap_s=0.0, repeats_one_token=False, failure="not-sent",
        detail=f"{limit} requests were under way, the most that the load generator may have",
    )  # fmt: skip
