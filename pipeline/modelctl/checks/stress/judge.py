"""Judges a load: every rule on what the engine and the client counted, then the figures.

Failures stay in the denominator. What was measured by a client that could not keep up is not held against the model:
queues and errors that the engine itself reported still are.
"""

from __future__ import annotations

from collections import Counter

from modelctl.checks.stress.figures import ends, prefix_hit_rate, series, steady, tokens_of, tpots, ttfts, worked_off
from modelctl.checks.stress.limits import LoadLimits
from modelctl.checks.stress.session import Notes, counted, restarted
from modelctl.serving.answers import percentile
from modelctl.serving.load import LoadResult
from modelctl.serving.metrics import EngineMetrics

_MIN_READINGS_SHARE = 0.8
_TOKENS_TOLERANCE = 0.02
_MAX_PREFIX_HIT_RATE = 0.01
_SERVER_FAULTS = ("http", "stream-error", "cut", "connect", "incomplete", "no-tokens")


def judge_load(
    limits: LoadLimits, result: LoadResult, notes: Notes, *, death: str | None, degenerate_share: float
) -> None:
    """Add findings and what could not be decided."""
    client_kept_up = _judge_client(limits, result, notes, dead=death is not None)
    _judge_life(result, notes, death)
    _judge_failures(limits, result, notes, client_kept_up=client_kept_up)
    _judge_queue(limits, result, notes)
    _judge_counters(limits, result, notes)
    if degenerate_share > limits.max_degenerate_share:
        notes.find(
            "degenerate",
            f"{degenerate_share:.2%} of the answers repeat one token under load and not alone; the limit is "
            f"{limits.max_degenerate_share:.2%} (concurrency.max_degenerate_share)",
            "suspect the engine's batched kernels for this quantisation; try another kernel or engine version",
        )
    if client_kept_up:
        _judge_latency(limits, result, notes)


def _judge_client(limits: LoadLimits, result: LoadResult, notes: Notes, *, dead: bool) -> bool:
    kept_up = True
    if result.loop_lag_p99_s > limits.max_client_lag_s:
        kept_up = False
        notes.cannot(
            f"the load generator was late by {result.loop_lag_p99_s:.3f} s (p99 of its event loop); the limit is "
            f"{limits.max_client_lag_s:g} s (concurrency.max_client_lag_s), so its times do not count",
            "run it on a machine with a free core, apart from the engine",
        )
    wanted = limits.min_achieved_share * result.plan.streams
    failed = any(row.failure for row in result.rows)
    if not dead and not failed and result.achieved_streams < wanted:
        kept_up = False
        notes.cannot(
            f"the load generator kept {result.achieved_streams:.1f} of {result.plan.streams} streams busy; wanted are "
            f"{wanted:.1f}",
            "run it on a machine with a free core, or ask for longer answers",
        )
    good = sum(row.failure is None for row in result.rows)
    if not failed and good < result.plan.streams:
        notes.cannot(
            f"{good} requests were answered, fewer than the {result.plan.streams} streams",
            "raise concurrency.duration_s",
        )
    return kept_up


def _judge_life(result: LoadResult, notes: Notes, death: str | None) -> None:
    if death is not None:
        notes.find("engine-died", f"the engine died under load: {death}", "see engine.log in the evidence")
    elif any(restarted(earlier, later) for earlier, later in zip(series(result), series(result)[1:], strict=False)):
        notes.find("restarted", "the engine was restarted under load", "see engine.log in the evidence")


def _judge_failures(limits: LoadLimits, result: LoadResult, notes: Notes, *, client_kept_up: bool) -> None:
    stalled = [row for row in result.rows if row.failure == "stalled"]
    silence_s = _longest_silence(result)
    if client_kept_up and (stalled or (silence_s is not None and silence_s >= limits.max_stall_s)):
        words = f"{len(stalled)} streams got no token for {limits.max_stall_s:g} s"
        if silence_s is not None and silence_s >= limits.max_stall_s:
            words += f"; the engine made no token for {silence_s:.0f} s while requests ran"
        notes.find(
            "stall",
            f"{words} (limit: concurrency.max_stall_s)",
            "see engine.log in the evidence; /health answers 200 for a hung engine, so alert on tokens",
        )
    counts_for_engine = ("timeout", *_SERVER_FAULTS) if client_kept_up else _SERVER_FAULTS
    failed = [row for row in result.rows if row.failure in counts_for_engine]
    if len(failed) > limits.max_failed:
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(row.failure for row in failed).most_common())
        notes.find(
            "failed-requests",
            f"{len(failed)} of {len(result.rows)} requests failed ({kinds}); the limit is {limits.max_failed} "
            f"(concurrency.max_failed). The first: {failed[0].detail}",
            "see engine.log and requests.jsonl.gz in the evidence",
        )


def _judge_queue(limits: LoadLimits, result: LoadResult, notes: Notes) -> None:
    readings = steady(result)
    waiting = [reading.waiting for reading in readings if reading.waiting is not None]
    wanted = int(_MIN_READINGS_SHARE * result.plan.duration_s / result.plan.scrape_s)
    if len(waiting) < max(1, wanted):
        notes.cannot(
            f"the queue (vllm:num_requests_waiting) was read {len(waiting)} times, wanted are {max(1, wanted)}",
            "serve with /metrics switched on",
        )
    worst = max(waiting, default=0.0)
    if worst >= limits.max_waiting:
        over = sum(value >= limits.max_waiting for value in waiting)
        notes.find(
            "waiting",
            f"up to {worst:.0f} requests waited (p95 {percentile(waiting, 0.95):.0f}; {over} of {len(waiting)} "
            f"readings at or over) with {result.plan.streams} streams; wanted are fewer than {limits.max_waiting} "
            "(concurrency.max_waiting)",
            "raise max_num_seqs, give the engine more KV cache, or add a replica",
        )


def _judge_counters(limits: LoadLimits, result: LoadResult, notes: Notes) -> None:
    before, after = ends(result)
    preempted = counted(before.preemptions, after.preemptions) if before and after else None
    if preempted is None:
        notes.cannot("the engine does not report preemptions (vllm:num_preemptions_total)", "serve with /metrics on")
    elif limits.max_preemptions is not None and preempted > limits.max_preemptions:
        notes.find(
            "preempted",
            f"{preempted:.0f} preemptions; the limit is {limits.max_preemptions} (concurrency.max_preemptions): "
            "the KV pool does not hold the streams",
            "give the engine more KV cache, or promise fewer streams",
        )
    made = counted(worked_off(before, result), worked_off(after, result)) if before and after else None
    got = tokens_of(result)
    if made is None:
        series_name = "prompt" if result.plan.api == "embeddings" else "generation"
        notes.cannot(
            f"the engine does not count its tokens (vllm:{series_name}_tokens_total)", "serve with /metrics on"
        )
    elif not any(row.failure for row in result.rows) and abs(made - got) > max(1.0, _TOKENS_TOLERANCE * got):
        notes.cannot(
            f"the engine counts {made:.0f} tokens and the client {got}: one is wrong, or others use it",
            "let the check have the engine alone",
        )
    rate = prefix_hit_rate(before, after)
    if rate is not None and rate >= _MAX_PREFIX_HIT_RATE:
        words = f"{rate:.1%} prefix cache hits though every prompt is unique: the times are too good"
        if result.plan.api == "chat":
            notes.warnings.append(f"{words}, if it is more than what the chat template puts before each prompt")
        else:
            notes.cannot(words, "let the check have the engine alone, or serve with --no-enable-prefix-caching")


def _judge_latency(limits: LoadLimits, result: LoadResult, notes: Notes) -> None:
    for rule, limit, values in (
        ("ttft", limits.max_ttft_p95_s, ttfts(result)),
        ("tpot", limits.max_tpot_p95_s, tpots(result)),
    ):
        found = percentile(values, 0.95)
        if limit is not None and found is not None and found > limit:
            notes.find(
                rule,
                f"{rule.upper()} p95 is {found:.3f} s at {result.plan.streams} streams; the limit is {limit:g} s "
                f"(concurrency.max_{rule}_p95_s)",
                "add GPUs or replicas, or promise fewer streams",
            )


def _longest_silence(result: LoadResult) -> float | None:
    """The longest time in which requests ran and the engine's token counter stood still; None when it does not say."""
    longest: float | None = None
    since: float | None = None
    previous: EngineMetrics | None = None
    for reading in series(result):
        if worked_off(reading, result) is None or reading.running is None:
            continue
        moved = previous is None or worked_off(previous, result) != worked_off(reading, result)
        if moved or not reading.running:
            since = reading.at_s
        previous = reading
        longest = max(longest or 0.0, reading.at_s - (since if since is not None else reading.at_s))
    return longest
