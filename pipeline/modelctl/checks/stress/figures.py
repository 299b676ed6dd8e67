"""The figures of a load: what its rules and its report are made of, each with everything that moves it."""

from __future__ import annotations

from modelctl.checks.base import Scalar
from modelctl.checks.stress.limits import LoadLimits
from modelctl.checks.stress.session import Notes, counted
from modelctl.serving.answers import percentile
from modelctl.serving.load import LoadResult
from modelctl.serving.metrics import EngineMetrics


def measure_load(limits: LoadLimits, result: LoadResult, notes: Notes, *, degenerate_share: float) -> None:
    """Add the figures, each with what moves it."""
    plan = result.plan
    load: dict[str, Scalar] = {
        "streams": plan.streams,
        "duration_s": plan.duration_s,
        "ramp_s": plan.ramp_s,
        "prompt_tokens": plan.prompt_tokens,
        "answer_tokens": plan.answer_tokens,
        "exact_answers": plan.exact_answer,
        "api": plan.api,
        "seed": limits.seed,
    }
    good = [row for row in result.rows if row.failure is None]
    waiting = [reading.waiting for reading in steady(result) if reading.waiting is not None]
    notes.measure("requests", len(result.rows), "", load)
    notes.measure("failed-requests", len(result.rows) - len(good), "", load)
    notes.measure("waiting-max", max(waiting, default=None), "", {**load, "readings": len(waiting)})
    notes.measure("waiting-p95", percentile(waiting, 0.95), "", {**load, "readings": len(waiting)})
    for name, values in (("ttft", ttfts(result)), ("tpot", tpots(result)), ("inter-chunk", result.gaps_s)):
        for share, word in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")):
            notes.measure(f"{name}-{word}", percentile(values, share), "s", {**load, "samples": len(values)})
    latencies = [row.latency_s for row in good]
    for share, word in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")):
        notes.measure(f"latency-{word}", percentile(latencies, share), "s", {**load, "samples": len(latencies)})
    tokens = tokens_of(result)
    finished = max((row.done_s for row in good), default=result.started_s)
    busy_s = finished - result.started_s
    notes.measure("throughput", tokens / busy_s if busy_s > 0 else None, "tokens/s", load)
    usage = [reading.kv_usage for reading in result.readings if reading.kv_usage is not None]
    notes.measure("kv-usage-max", max(usage, default=None), "", {**load, "readings": len(usage)})
    notes.measure("prefix-cache-hit-rate", prefix_hit_rate(*ends(result)), "", load)
    notes.measure("degenerate-share", degenerate_share, "", load)
    notes.measure("achieved-streams", result.achieved_streams, "", load)
    notes.measure("client-lag-p99", result.loop_lag_p99_s, "s", load)


def ttfts(result: LoadResult) -> list[float]:
    """Times to first token of all good answers, in seconds; to the whole answer where that is a vector."""
    if result.plan.api == "embeddings":
        return [row.latency_s for row in result.rows if row.failure is None]
    return [row.ttft_s for row in result.rows if row.failure is None and row.ttft_s is not None]


def tokens_of(result: LoadResult) -> int:
    """What the engine worked off as the client counted it: tokens written, or read where the answers are vectors."""
    if result.plan.api == "embeddings":
        return sum(row.prompt_tokens or 0 for row in result.rows if row.failure is None)
    return sum(row.completion_tokens or 0 for row in result.rows if row.failure is None)


def worked_off(reading: EngineMetrics, result: LoadResult) -> float | None:
    """The same as the engine's counter has it."""
    return reading.prompt_tokens if result.plan.api == "embeddings" else reading.generation_tokens


def tpots(result: LoadResult) -> list[float]:
    """Times per output token of all good answers, in seconds."""
    return [row.tpot_s for row in result.rows if row.failure is None and row.tpot_s is not None]


def steady(result: LoadResult) -> list[EngineMetrics]:
    """The readings while all streams were kept busy."""
    return [reading for reading in result.readings if result.steady_s <= reading.at_s <= result.ended_s]


def series(result: LoadResult) -> list[EngineMetrics]:
    """All readings, the ones before and after included."""
    return [reading for reading in (result.before, *result.readings, result.after) if reading is not None]


def ends(result: LoadResult) -> tuple[EngineMetrics | None, EngineMetrics | None]:
    """The readings before and after the load; after a death the last one that came back."""
    last = result.readings[-1] if result.readings else None
    return result.before, result.after or last


def prefix_hit_rate(before: EngineMetrics | None, after: EngineMetrics | None) -> float | None:
    """Prefix cache hits among queries between two readings; None when the engine does not say."""
    if before is None or after is None:
        return None
    queries = counted(before.prefix_queries, after.prefix_queries)
    hits = counted(before.prefix_hits, after.prefix_hits)
    return hits / queries if queries and hits is not None else None
