"""Each engine by itself: where the load, the cache and the time go."""

from __future__ import annotations

from modelctl.rollout.environment import Environment
from modelctl.rollout.panels.base import ENGINE, RATE, Panel, Query, query

POD = "{{pod}}"


def engine_panels(environment: Environment) -> tuple[Panel, ...]:
    """Each engine by itself: where the load, the cache and the time go."""
    limits, alerts = environment.canary.limits, environment.alerts
    return (
        Panel(
            title="Running requests",
            description="By engine. One that is far from the others gets another share, or is stuck.",
            unit="short",
            queries=(_by_pod(f"vllm:num_requests_running{{{ENGINE}}}"),),
        ),
        Panel(
            title="Waiting requests",
            description="By engine; the line is the limit of the canary and of the alert.",
            unit="short",
            thresholds=(limits.waiting,),
            queries=(_by_pod(f"vllm:num_requests_waiting{{{ENGINE}}}"),),
        ),
        Panel(
            title="KV cache in use",
            description="Full means that requests wait or are thrown out; cached blocks that nobody uses are free.",
            unit="percentunit",
            most=1,
            thresholds=(alerts.kv_cache_share,),
            queries=(query(f"max by (pod) (vllm:kv_cache_usage_perc{{{ENGINE}}})", POD),),
        ),
        Panel(
            title="Preemptions per minute",
            description="Requests thrown out of the KV cache and computed again: the first sign of too little memory.",
            unit="short",
            queries=(query(f"60 * sum by (pod) (rate(vllm:num_preemptions_total{{{ENGINE}}}[{RATE}]))", POD),),
        ),
        Panel(
            title="Engine steps per second",
            description="The heartbeat. Zero with running requests is a hung engine, whose /health still answers.",
            unit="ops",
            queries=(query(f"sum by (pod) (rate(vllm:iteration_tokens_total_count{{{ENGINE}}}[{RATE}]))", POD),),
        ),
        Panel(
            title="Written tokens per second",
            description="By engine.",
            unit="short",
            queries=(query(f"sum by (pod) (rate(vllm:generation_tokens_total{{{ENGINE}}}[{RATE}]))", POD),),
        ),
        Panel(
            title="Where a request's time goes",
            description="Mean seconds in the queue, reading the prompt and writing the answer, over all engines.",
            unit="s",
            queries=tuple(
                query(
                    f"sum(rate(vllm:request_{part}_time_seconds_sum{{{ENGINE}}}[{RATE}])) "
                    f"/ sum(rate(vllm:request_{part}_time_seconds_count{{{ENGINE}}}[{RATE}]))",
                    part,
                )
                for part in ("queue", "prefill", "decode")
            ),
        ),
        Panel(
            title="Prefix cache hits",
            description="Share of the prompt tokens that were computed before. A new release begins with none.",
            unit="percentunit",
            most=1,
            queries=(
                query(
                    f"sum by (pod) (rate(vllm:prefix_cache_hits_total{{{ENGINE}}}[{RATE}])) "
                    f"/ sum by (pod) (rate(vllm:prefix_cache_queries_total{{{ENGINE}}}[{RATE}]))",
                    POD,
                ),
            ),
        ),
        Panel(
            title="Memory of the server process",
            description="Resident set of the API server, not of the GPU. It should not grow for days.",
            unit="bytes",
            queries=(_by_pod(f"process_resident_memory_bytes{{{ENGINE}}}"),),
        ),
        Panel(
            title="Time since the start",
            description="A line that falls to zero is an engine that was started anew.",
            unit="s",
            queries=(query(f"time() - max by (pod) (process_start_time_seconds{{{ENGINE}}})", POD),),
        ),
    )


def _by_pod(series: str) -> Query:
    return query(f"sum by (pod) ({series})", POD)
