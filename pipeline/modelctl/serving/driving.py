"""Puts one process's share of a load on, closed loop or open, and watches the process's own event loop and core.

Times are on one clock for all processes (CLOCK_MONOTONIC is the machine's).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import time

from modelctl.serving.client import EngineClient
from modelctl.serving.closed_loop import run_closed
from modelctl.serving.open_loop import run_open
from modelctl.serving.plan import LoadPlan
from modelctl.serving.prompts import PromptMaker
from modelctl.serving.shares import Driven, Share

_LAG_INTERVAL_S = 0.05


async def drive(
    client: EngineClient, prompts: PromptMaker, plan: LoadPlan, share: Share, driven: Driven, *, started_s: float
) -> None:
    """Put the share on from `started_s` on and wait for its last answer; `driven` can be watched meanwhile."""
    _allow_connections()
    gc.freeze()  # what is there by now is not looked through again while every millisecond counts
    watch = asyncio.create_task(_watch_lag(client, driven))
    begin_s, begin_cpu_s = client.now(), time.process_time()
    load = run_closed if plan.rate is None else run_open
    try:
        await load(client, prompts, plan, share, driven, started_s)
    finally:
        watch.cancel()
        gc.unfreeze()
        driven.cpu_share = (time.process_time() - begin_cpu_s) / max(client.now() - begin_s, 1e-9)


def _allow_connections() -> None:
    """Open files up to the hard limit: many systems begin with 1024, which would bound the streams."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _watch_lag(client: EngineClient, driven: Driven) -> None:
    while True:
        due = client.now() + _LAG_INTERVAL_S
        await asyncio.sleep(_LAG_INTERVAL_S)
        driven.lags.append(client.now() - due)
