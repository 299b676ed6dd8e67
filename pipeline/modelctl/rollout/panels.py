"""What each panel of a dashboard asks Prometheus, and how its answer is to be read.

Canary and stable are told apart by the pod hash that the PodMonitor keeps. `$__rate_interval` is Grafana's: four scrape
intervals or more, so that a rate never has too few samples.
"""

from __future__ import annotations

from dataclasses import dataclass

from modelctl.rollout.environment import Environment
from modelctl.rollout.manifest import HASH_LABEL, NAME_LABEL, series_label

RATE = "$__rate_interval"
HASH = series_label(HASH_LABEL)
ENGINE = f'namespace="$namespace",{series_label(NAME_LABEL)}="$model"'
V1 = f'{ENGINE},handler=~"/v1/.*"'
GPU = 'namespace="$namespace",pod=~"$model-.*"'
RELEASE = "{{" + HASH + "}}"
POD = "{{pod}}"
ONE_GPU = "{{pod}} GPU {{gpu}}"


@dataclass(frozen=True, kw_only=True)
class Query:
    """One question, and the name of each line of its answer."""

    expression: str
    legend: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel."""

    title: str
    description: str
    """What a person should take from it."""
    unit: str
    """Grafana's name of the unit (`s`, `percentunit`, `reqps`, `short` …)."""
    queries: tuple[Query, ...]
    thresholds: tuple[float, ...] = ()
    """Where it becomes noteworthy, then bad; one alone is bad."""
    most: float | None = None
    """The end of the scale, where there is one."""


def service(environment: Environment) -> tuple[Panel, ...]:
    """What the model's users see."""
    limits, alerts = environment.canary.limits, environment.alerts
    outcomes = "vllm:request_success_total"
    tokens = ("prompt", "generation")
    return (
        Panel(
            title="Requests per second",
            description="By HTTP status. Each release's share of them is the panel beside it.",
            unit="reqps",
            queries=(_query(f"sum by (status) (rate(http_requests_total{{{V1}}}[{RATE}]))", "{{status}}"),),
        ),
        Panel(
            title="Share of the requests by release",
            description="What the canary really gets; the label is the hash of its pods.",
            unit="percentunit",
            most=1,
            queries=(
                _query(
                    f"sum by ({HASH}) (rate(http_requests_total{{{V1}}}[{RATE}])) "
                    f"/ ignoring({HASH}) group_left sum(rate(http_requests_total{{{V1}}}[{RATE}]))",
                    RELEASE,
                ),
            ),
        ),
        Panel(
            title="Errors",
            description="HTTP 5xx, and errors inside HTTP 200. The lines: the canary's limit, and what pages.",
            unit="percentunit",
            thresholds=_rising(limits.error_share, alerts.error_share),
            queries=(
                _query(
                    f'(sum by ({HASH}) (rate(http_requests_total{{{V1},status=~"5.."}}[{RATE}])) '
                    f"or 0 * sum by ({HASH}) (rate(http_requests_total{{{V1}}}[{RATE}]))) "
                    f"/ sum by ({HASH}) (rate(http_requests_total{{{V1}}}[{RATE}]))",
                    f"HTTP {RELEASE}",
                ),
                _query(
                    f'sum by ({HASH}) (rate({outcomes}{{{ENGINE},finished_reason="error"}}[{RATE}])) '
                    f"/ sum by ({HASH}) (rate({outcomes}{{{ENGINE}}}[{RATE}]))",
                    f"stream {RELEASE}",
                ),
            ),
        ),
        Panel(
            title="Time to first token",
            description="95th percentile and mean by release. The line is the alert's limit.",
            unit="s",
            thresholds=(alerts.ttft_p95_s,),
            queries=_latency("vllm:time_to_first_token_seconds"),
        ),
        Panel(
            title="Time from token to token",
            description="95th percentile and mean by release: how fluent an answer is to read.",
            unit="s",
            queries=_latency("vllm:inter_token_latency_seconds"),
        ),
        Panel(
            title="Whole answer",
            description="95th percentile and mean by release, from the request's arrival to its last token.",
            unit="s",
            queries=_latency("vllm:e2e_request_latency_seconds"),
        ),
        Panel(
            title="Requests in the engines",
            description="Running and waiting over all engines.",
            unit="short",
            queries=tuple(
                _query(f"sum(vllm:num_requests_{state}{{{ENGINE}}})", state) for state in ("running", "waiting")
            ),
        ),
        Panel(
            title="Tokens per second",
            description="Read (prompt) and written (generation).",
            unit="short",
            queries=tuple(_query(f"sum(rate(vllm:{kind}_tokens_total{{{ENGINE}}}[{RATE}]))", kind) for kind in tokens),
        ),
        Panel(
            title="How answers end",
            description="`length` that grows after a rollout is a model that does not find its end.",
            unit="percentunit",
            most=1,
            queries=(
                _query(
                    f"sum by (finished_reason) (rate({outcomes}{{{ENGINE}}}[{RATE}])) "
                    f"/ ignoring(finished_reason) group_left sum(rate({outcomes}{{{ENGINE}}}[{RATE}]))",
                    "{{finished_reason}}",
                ),
            ),
        ),
        Panel(
            title="Engines that answer",
            description="Scraped engines by release. Fewer than there are pods: some are loading, or down.",
            unit="short",
            queries=(_query(f"sum by ({HASH}) (up{{{ENGINE}}})", RELEASE),),
        ),
    )


def instance(environment: Environment) -> tuple[Panel, ...]:
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
            queries=(_query(f"max by (pod) (vllm:kv_cache_usage_perc{{{ENGINE}}})", POD),),
        ),
        Panel(
            title="Preemptions per minute",
            description="Requests thrown out of the KV cache and computed again: the first sign of too little memory.",
            unit="short",
            queries=(_query(f"60 * sum by (pod) (rate(vllm:num_preemptions_total{{{ENGINE}}}[{RATE}]))", POD),),
        ),
        Panel(
            title="Engine steps per second",
            description="The heartbeat. Zero with running requests is a hung engine, whose /health still answers.",
            unit="ops",
            queries=(_query(f"sum by (pod) (rate(vllm:iteration_tokens_total_count{{{ENGINE}}}[{RATE}]))", POD),),
        ),
        Panel(
            title="Written tokens per second",
            description="By engine.",
            unit="short",
            queries=(_query(f"sum by (pod) (rate(vllm:generation_tokens_total{{{ENGINE}}}[{RATE}]))", POD),),
        ),
        Panel(
            title="Where a request's time goes",
            description="Mean seconds in the queue, reading the prompt and writing the answer, over all engines.",
            unit="s",
            queries=tuple(
                _query(
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
                _query(
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
            queries=(_query(f"time() - max by (pod) (process_start_time_seconds{{{ENGINE}}})", POD),),
        ),
    )


def gpu(environment: Environment) -> tuple[Panel, ...]:
    """The GPUs of the model's pods, as NVIDIA's dcgm-exporter reports them."""

    def one(metric: str, scale: str = "") -> tuple[Query, ...]:
        return (_query(f"max by (pod, gpu) (DCGM_FI_DEV_{metric}{{{GPU}}}){scale}", ONE_GPU),)

    used, free = f"DCGM_FI_DEV_FB_USED{{{GPU}}}", f"DCGM_FI_DEV_FB_FREE{{{GPU}}}"
    return (
        Panel(
            title="Busy",
            description="Share of the time in which a kernel ran: 100 % says nothing of how well it used the GPU.",
            unit="percent",
            most=100,
            queries=one("GPU_UTIL"),
        ),
        Panel(
            title="Memory in use",
            description="The engine reserves its share when it starts, so this does not follow the load.",
            unit="percentunit",
            most=1,
            thresholds=(environment.alerts.gpu_memory_share,),
            queries=(_query(f"max by (pod, gpu) ({used} / ({used} + {free}))", ONE_GPU),),
        ),
        Panel(title="Power", description="Draw of each GPU.", unit="watt", queries=one("POWER_USAGE")),
        Panel(title="Temperature", description="Of the chip.", unit="celsius", queries=one("GPU_TEMP")),
        Panel(
            title="Memory temperature", description="Of the GPU's memory.", unit="celsius", queries=one("MEMORY_TEMP")
        ),
        Panel(
            title="Clock",
            description="Falls when the GPU is too hot or may not draw more power.",
            unit="hertz",
            queries=one("SM_CLOCK", " * 1e6"),
        ),
        Panel(
            title="Last XID error",
            description="Zero is none. NVIDIA's list of XID errors says what a number means.",
            unit="short",
            thresholds=(1,),
            queries=one("XID_ERRORS"),
        ),
        Panel(
            title="Memory rows remapped for errors",
            description="Uncorrectable errors made the GPU replace a row of memory; a failed replacement ends its use.",
            unit="short",
            thresholds=(1,),
            queries=(
                _query(f"max by (pod, gpu) (DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{{{GPU}}})", f"rows {ONE_GPU}"),
                _query(f"max by (pod, gpu) (DCGM_FI_DEV_ROW_REMAP_FAILURE{{{GPU}}})", f"failed {ONE_GPU}"),
            ),
        ),
        Panel(
            title="PCIe retries per minute",
            description="A sign of a bad slot, riser or cable.",
            unit="short",
            queries=(
                _query(f"60 * sum by (pod, gpu) (rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{GPU}}}[{RATE}]))", ONE_GPU),
            ),
        ),
    )


def _query(expression: str, legend: str) -> Query:
    return Query(expression=expression, legend=legend)


def _by_pod(series: str) -> Query:
    return _query(f"sum by (pod) ({series})", POD)


def _rising(first: float, second: float) -> tuple[float, ...]:
    """Two limits as thresholds; the higher one alone when they are not in order."""
    return (first, second) if first < second else (second,)


def _latency(series: str) -> tuple[Query, ...]:
    tail = f"histogram_quantile(0.95, sum by (le, {HASH}) (rate({series}_bucket{{{ENGINE}}}[{RATE}])))"
    total, count = (f"sum by ({HASH}) (rate({series}_{part}{{{ENGINE}}}[{RATE}]))" for part in ("sum", "count"))
    return _query(tail, f"p95 {RELEASE}"), _query(f"{total} / {count}", f"mean {RELEASE}")
