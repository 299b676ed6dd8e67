"""What the model's users see: requests, errors, latency and how answers end, by release."""

from __future__ import annotations

from modelctl.rollout.environment import Environment
from modelctl.rollout.panels.base import ENGINE, HASH, RATE, Panel, Query, query

V1 = f'{ENGINE},handler=~"/v1/.*"'
RELEASE = "{{" + HASH + "}}"


def service_panels(environment: Environment) -> tuple[Panel, ...]:
    """What the model's users see."""
    limits, alerts = environment.canary.limits, environment.alerts
    outcomes = "vllm:request_success_total"
    tokens = ("prompt", "generation")
    return (
        Panel(
            title="Requests per second",
            description="By HTTP status. Each release's share of them is the panel beside it.",
            unit="reqps",
            queries=(query(f"sum by (status) (rate(http_requests_total{{{V1}}}[{RATE}]))", "{{status}}"),),
        ),
        Panel(
            title="Share of the requests by release",
            description="What the canary really gets; the label is the hash of its pods.",
            unit="percentunit",
            most=1,
            queries=(
                query(
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
                query(
                    f'(sum by ({HASH}) (rate(http_requests_total{{{V1},status=~"5.."}}[{RATE}])) '
                    f"or 0 * sum by ({HASH}) (rate(http_requests_total{{{V1}}}[{RATE}]))) "
                    f"/ sum by ({HASH}) (rate(http_requests_total{{{V1}}}[{RATE}]))",
                    f"HTTP {RELEASE}",
                ),
                query(
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
                query(f"sum(vllm:num_requests_{state}{{{ENGINE}}})", state) for state in ("running", "waiting")
            ),
        ),
        Panel(
            title="Tokens per second",
            description="Read (prompt) and written (generation).",
            unit="short",
            queries=tuple(query(f"sum(rate(vllm:{kind}_tokens_total{{{ENGINE}}}[{RATE}]))", kind) for kind in tokens),
        ),
        Panel(
            title="How answers end",
            description="`length` that grows after a rollout is a model that does not find its end.",
            unit="percentunit",
            most=1,
            queries=(
                query(
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
            queries=(query(f"sum by ({HASH}) (up{{{ENGINE}}})", RELEASE),),
        ),
    )


def _rising(first: float, second: float) -> tuple[float, ...]:
    """Two limits as thresholds; the higher one alone when they are not in order."""
    return (first, second) if first < second else (second,)


def _latency(series: str) -> tuple[Query, ...]:
    tail = f"histogram_quantile(0.95, sum by (le, {HASH}) (rate({series}_bucket{{{ENGINE}}}[{RATE}])))"
    total, count = (f"sum by ({HASH}) (rate({series}_{part}{{{ENGINE}}}[{RATE}]))" for part in ("sum", "count"))
    return query(tail, f"p95 {RELEASE}"), query(f"{total} / {count}", f"mean {RELEASE}")
