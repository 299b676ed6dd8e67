"""Puts one closed load on a URL with modelctl's generator, by number of requests, and prints its figures as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from statistics import median
from typing import Any

from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.load import LoadPlan, LoadResult, run_load
from modelctl.serving.prompts import prompt_maker


async def run(asked: dict[str, Any]) -> LoadResult:
    """The load: streams until about so many requests were sent, which is known by time only."""
    endpoint = Endpoint(base_url=asked["url"], model=asked["model"], max_model_len=None)
    async with EngineClient(endpoint) as client:
        prompts = await prompt_maker(client, seed=1000 * asked["seed"])
        sizes = {"prompt_tokens": asked["prompt"], "answer_tokens": asked["answer"]}
        once = await client.complete(
            prompts.make(999_999, asked["prompt"]).content, answer_tokens=asked["answer"], exact_answer=True
        )
        # Streams start over the time of one answer, so that they do not all end and begin again at once; others have
        # no such ramp.
        ramp_s = once.row.latency_s if asked["ramp"] else 0.0
        rounds = asked["requests"] / asked["streams"]
        plan = LoadPlan(
            streams=asked["streams"], duration_s=max(0.1, (rounds - 0.5) * once.row.latency_s), ramp_s=ramp_s,
            scrape_s=1.0, exact_answer=True, **sizes,
        )  # fmt: skip
        return await run_load(client, prompts, plan, on_tick=lambda tick: None)


def main() -> None:
    """The command line: one JSON object."""
    result = asyncio.run(run(json.loads(sys.argv[1])))
    failed = [row.detail for row in result.rows if row.failure is not None]
    if failed:
        raise SystemExit(f"{len(failed)} requests failed: {failed[0]}")
    begin = min(row.sent_s for row in result.rows)
    end = max(row.done_s for row in result.rows)
    tokens = sum(row.completion_tokens or 0 for row in result.rows)
    figures = {
        "ttft_s": median(row.ttft_s for row in result.rows if row.ttft_s is not None),
        "tpot_s": median(row.tpot_s for row in result.rows if row.tpot_s is not None),
        "throughput": tokens / (end - begin),
        "lag_p99_s": result.loop_lag_p99_s,
        "processes": len(result.cpu_shares),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
