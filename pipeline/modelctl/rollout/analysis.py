"""The AnalysisTemplate: what Prometheus is asked about a canary, and what each answer means.

Every measurement has a success and a failure condition, and an answer that is empty or not a number meets neither: it
is inconclusive and pauses the rollout. A query is empty when a metric is absent or too few requests were finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modelctl.rollout.environment import Environment
from modelctl.rollout.labels import BEFORE_PODS
from modelctl.rollout.manifest import HASH_LABEL, Json, Manifest, series_label

KNOWN = "len(result) > 0 && !isNaN(result[0])"
STALL_S = 120
"""No token for this long while requests run is a hung engine (`/health` still answers 200)."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One question to Prometheus. `good` is a comparison with `result[0]`; its opposite fails."""

    name: str
    query: str
    good: str
    bad: str


def measurements(environment: Environment) -> tuple[Measurement, ...]:
    """All measurements of a canary, with the environment's limits."""
    limits = environment.canary.limits
    window = f"[{environment.canary.window_s}s]"
    canary = _matchers(environment, "canary-hash")
    stable = _matchers(environment, "stable-hash")
    enough = f"and on() ({_finished(canary, window)} >= {limits.min_requests})"
    both_enough = f"{enough}\nand on() ({_finished(stable, window)} >= {limits.min_requests})"
    requests = f'{canary},handler=~"/v1/.*"'
    outcomes = "vllm:request_success_total"
    return (
        Measurement(
            name="http-errors",
            query=(
                f'(\n  (sum(rate(http_requests_total{{{requests},status=~"5.."}}{window})) or vector(0))\n'
                f"  / sum(rate(http_requests_total{{{requests}}}{window}))\n)\n{enough}"
            ),
            good=f"<= {limits.error_share}",
            bad=f"> {limits.error_share}",
        ),
        # An error in the middle of a stream is HTTP 200; only the engine counts it.
        Measurement(
            name="stream-errors",
            query=(
                f'(\n  (sum(rate({outcomes}{{{canary},finished_reason="error"}}{window})) or vector(0))\n'
                f"  / sum(rate({outcomes}{{{canary}}}{window}))\n)\n{enough}"
            ),
            good=f"<= {limits.error_share}",
            bad=f"> {limits.error_share}",
        ),
        Measurement(
            name="ttft-ratio",
            query=f"{_ratio('vllm:time_to_first_token_seconds', canary, stable, window)}\n{both_enough}",
            good=f"<= {limits.ttft_ratio}",
            bad=f"> {limits.ttft_ratio}",
        ),
        Measurement(
            name="inter-token-ratio",
            query=f"{_ratio('vllm:inter_token_latency_seconds', canary, stable, window)}\n{both_enough}",
            good=f"<= {limits.inter_token_ratio}",
            bad=f"> {limits.inter_token_ratio}",
        ),
        # A model that does not find its end answers up to the limit; how often is that of the release before it?
        Measurement(
            name="runaway-length",
            query=f"(\n  {_share_cut(canary, window)}\n  - {_share_cut(stable, window)}\n)\n{both_enough}",
            good=f"<= {limits.length_share_rise}",
            bad=f"> {limits.length_share_rise}",
        ),
        Measurement(
            name="preemptions",
            query=f"sum(increase(vllm:num_preemptions_total{{{canary}}}{window}))\n{enough}",
            good=f"<= {limits.preemptions}",
            bad=f"> {limits.preemptions}",
        ),
        Measurement(
            name="waiting",
            query=f"max(max_over_time(vllm:num_requests_waiting{{{canary}}}{window}))\n{enough}",
            good=f"< {limits.waiting}",
            bad=f">= {limits.waiting}",
        ),
        Measurement(name="stalled", query=_stalled(canary), good="== 0", bad="> 0"),
    )


def template(environment: Environment, name: str) -> Manifest:
    """The AnalysisTemplate manifest."""
    metrics: list[Json] = [_metric(environment, measurement) for measurement in measurements(environment)]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AnalysisTemplate",
        "metadata": {"name": f"{name}-canary", "namespace": environment.namespace, "annotations": BEFORE_PODS},
        "spec": {"args": [{"name": "canary-hash"}, {"name": "stable-hash"}], "metrics": metrics},
    }


def _metric(environment: Environment, measurement: Measurement) -> Manifest:
    canary = environment.canary
    return {
        "name": measurement.name,
        "initialDelay": f"{canary.window_s}s",
        "interval": f"{canary.interval_s}s",
        "successCondition": f"{KNOWN} && result[0] {measurement.good}",
        "failureCondition": f"{KNOWN} && result[0] {measurement.bad}",
        # One bad minute may be noise; several metrics at limit 0 would abort good releases.
        "failureLimit": 1,
        "inconclusiveLimit": canary.inconclusive_limit,
        "consecutiveErrorLimit": 2,
        "provider": {"prometheus": {"address": environment.prometheus.address, "query": measurement.query}},
    }


def _matchers(environment: Environment, argument: str) -> str:
    label = series_label(HASH_LABEL)
    return f'namespace="{environment.namespace}",{label}="{{{{args.{argument}}}}}"'


def _finished(matchers: str, window: str) -> str:
    return f"sum(increase(vllm:e2e_request_latency_seconds_count{{{matchers}}}{window}))"


def _share_cut(matchers: str, window: str) -> str:
    """Share of the answers that ended at the length limit."""
    series = "vllm:request_success_total"
    cut = f'(sum(rate({series}{{{matchers},finished_reason="length"}}{window})) or vector(0))'
    return f"({cut} / sum(rate({series}{{{matchers}}}{window})))"


def _ratio(series: str, canary: str, stable: str, window: str) -> str:
    """Of a latency's histogram, canary over stable: the smaller of the ratios of the 95th percentiles and of the means,
    as (a + b - |a - b|) / 2.

    A ratio of percentiles within one histogram bucket is noise, so the mean must agree; and unlike `min`, the formula
    stays not-a-number when either ratio is.
    """

    def tail(matchers: str) -> str:
        return f"histogram_quantile(0.95, sum by (le) (rate({series}_bucket{{{matchers}}}{window})))"

    def mean(matchers: str) -> str:
        rates = (f"sum(rate({series}_{part}{{{matchers}}}{window}))" for part in ("sum", "count"))
        return f"({' / '.join(rates)})"

    ratios = [f"{kind(canary)} / {kind(stable)}" for kind in (tail, mean)]
    return _smaller(ratios)


def _smaller(ratios: Sequence[str]) -> str:
    a, b = ratios
    return f"(\n  (\n    {a}\n    + {b}\n    - abs(\n      {a}\n      - {b}\n    )\n  ) / 2\n)"


def _stalled(canary: str) -> str:
    """1 when an engine had running requests all the time and made no token, 0 when not, empty when a metric is absent.

    Not guarded by finished requests, which a hung engine has not. By pod, since a healthy one would hide a hung one.
    """
    window = f"[{STALL_S}s]"
    return (
        "max(\n"
        f"  (sum by (pod) (min_over_time(vllm:num_requests_running{{{canary}}}{window})) > bool 0)\n"
        f"  * on (pod) (sum by (pod) (increase(vllm:iteration_tokens_total_count{{{canary}}}{window})) == bool 0)\n"
        ")"
    )
