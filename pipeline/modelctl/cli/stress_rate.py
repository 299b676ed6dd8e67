"""`modelctl stress --rate`: one open loop at a steady rate, its figures and every request."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from modelctl.errors import InputError
from modelctl.files import write_whole
from modelctl.progress import Progress
from modelctl.serving.answers import percentile
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.load import LoadPlan, LoadResult, run_load
from modelctl.serving.load_bar import LoadBar
from modelctl.serving.plan import MAX_LAG_S
from modelctl.serving.prompting import prompts_for

if TYPE_CHECKING:
    from rich.console import Console

ROWS_NAME = "requests.jsonl.gz"
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def run_at_rate(endpoint: Endpoint, plan: LoadPlan, folder: Path, *, progress: Progress) -> LoadResult:
    """Put the load on and keep its requests. Raises `InputError` when the folder holds something."""
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder}: not empty", remedy="name another folder with --out")
    folder.mkdir(parents=True, exist_ok=True)

    async def run() -> LoadResult:
        async with EngineClient(endpoint) as client:
            prompts = await prompts_for(client, seed=plan.seed, api=plan.api)
            with progress.task("load", total=plan.end_s, unit="seconds") as task:
                return await run_load(client, prompts, plan, on_tick=LoadBar(task, end_s=plan.end_s))

    result = asyncio.run(run())
    lines = "".join(f"{json.dumps(asdict(row), sort_keys=True)}\n" for row in result.rows)
    write_whole(folder / ROWS_NAME, gzip.compress(lines.encode(), mtime=0))
    return result


def client_fault(result: LoadResult) -> str | None:
    """Why the client's figures are not to be believed, if so."""
    if result.not_sent:
        return f"{result.not_sent} requests were not sent: {result.plan.streams} were under way already"
    late = max(result.loop_lag_p99_s, result.late_p99_s or 0.0)
    if late > MAX_LAG_S:
        return f"the load generator was late by {late:.3f} s (p99); the limit is {MAX_LAG_S:g} s"
    return None


def figures(result: LoadResult) -> dict[str, object]:
    """The load for a program: counts, and latencies in seconds from the moment each request was due."""
    judged = [row for row in result.rows if row.intended_s >= result.steady_s]
    good = [row for row in judged if row.failure is None]
    values = {
        "ttft_s": [row.ttft_s for row in good if row.ttft_s is not None],
        "tpot_s": [row.tpot_s for row in good if row.tpot_s is not None],
        "latency_s": [row.latency_s for row in good],
        "sent_late_s": [row.sent_s - row.intended_s for row in judged],
    }
    failures = [row for row in judged if row.failure is not None]
    waiting = [reading.waiting for reading in result.readings if reading.waiting is not None]
    return {
        "requests": len(judged),
        "failed": len(failures),
        "first_failure": failures[0].detail if failures else None,
        "not_sent": result.not_sent,
        "prompt_tokens": sum(row.prompt_tokens or 0 for row in good),
        "answer_tokens": sum(row.completion_tokens or 0 for row in good),
        "waiting_max": max(waiting, default=None),
        **{
            name: {word: percentile(found, share) for word, share in _SHARES.items()}
            for name, found in values.items()
            if found
        },
        "client": {
            "lag_p99_s": result.loop_lag_p99_s, "cpu_shares": result.cpu_shares, "fault": client_fault(result)
        },
        "gave_up": result.gave_up,
    }  # fmt: skip


def as_json(endpoint: Endpoint, result: LoadResult) -> str:
    """Everything but the rows."""
    engine = {"url": endpoint.base_url, "model": endpoint.model, "version": endpoint.version}
    return json.dumps({"engine": engine, "plan": asdict(result.plan), **figures(result)}, indent=2) + "\n"


def print_rate(endpoint: Endpoint, result: LoadResult, out: Console) -> None:
    """The load for a person."""
    from rich.table import Table

    found, plan = figures(result), result.plan
    version = f" (vLLM {endpoint.version})" if endpoint.version else ""
    out.print(f"{endpoint.model} at {endpoint.base_url}{version}", style="bold")
    out.print(
        f"{plan.api}: {plan.rate:g} requests/s ({plan.arrivals}) for {plan.duration_s:g} s after {plan.ramp_s:g} s of "
        f"warm-up; {plan.prompt_tokens} tokens of prompt\n",
        style="dim",
    )
    table = Table("from when it was due", *_SHARES, box=None, pad_edge=False)
    for label, name in (
        ("time to first token", "ttft_s"), ("time per output token", "tpot_s"), ("whole request", "latency_s"),
        ("sent late by", "sent_late_s"),
    ):  # fmt: skip
        shares = found.get(name)
        if isinstance(shares, dict):
            table.add_row(label, *(f"{value * 1000:.1f} ms" for value in shares.values()))
    out.print(table)
    waiting = found["waiting_max"]
    queue = "" if waiting is None else f", at most {waiting:.0f} waiting"
    out.print(f"\n{found['requests']} requests, {found['failed']} failed{queue}")
    for words in (found["first_failure"], result.gave_up, client_fault(result)):
        if words is not None:
            out.print(str(words), style="yellow")
