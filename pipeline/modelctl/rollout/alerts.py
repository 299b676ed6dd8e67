"""The PrometheusRule: what wakes a person, what waits for the morning, and what to do about it.

P0 pages at once, P1 within working hours, P2 is looked at. An alert about a share waits for enough requests; the one
about absence is the only one that an absent metric fires. Engine metrics are vLLM's, GPU metrics those of NVIDIA's
dcgm-exporter (FB in MiB; counters since the driver was loaded), which labels them with the pod. Its default list has
rows that were remapped for errors and leaves the ECC counters out, so the alert on errors asks for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from modelctl.rollout.environment import Environment
from modelctl.rollout.labels import labels
from modelctl.rollout.manifest import Json, Manifest, series_of

Severity = Literal["P0", "P1", "P2"]
WINDOW = "[10m]"
STALL = "[2m]"
ENOUGH = 20
"""Finished requests in ten minutes under which no share is judged."""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert."""

    name: str
    severity: Severity
    expression: str
    for_s: int
    """How long it must hold, in seconds."""
    summary: str
    action: str
    """The first thing to do, as one sentence."""


def alerts(environment: Environment, name: str, *, gpus: int) -> tuple[Alert, ...]:
    """All alerts of one model in one environment; those on GPUs only where a replica has one."""
    limits, canary = environment.alerts, environment.canary.limits
    engine = series_of(environment.namespace, name)
    requests = f'{engine},handler=~"/v1/.*"'
    finished = f"sum(increase(vllm:e2e_request_latency_seconds_count{{{engine}}}{WINDOW}))"
    enough = f"and on() ({finished} >= {ENOUGH})"
    outcomes = "vllm:request_success_total"
    found = [
        Alert(
            name="EngineDown",
            severity="P0",
            expression=f"(sum(up{{{engine}}}) or vector(0)) == 0",
            for_s=120,
            summary="no engine answers Prometheus",
            action=f"kubectl -n {environment.namespace} get rollout,pods; modelctl status --env ENV --cluster",
        ),
        Alert(
            name="EngineStalled",
            severity="P0",
            expression=(
                f"(sum by (pod) (min_over_time(vllm:num_requests_running{{{engine}}}{STALL})) > 0)\n"
                f"and on (pod) (sum by (pod) (increase(vllm:iteration_tokens_total_count{{{engine}}}{STALL})) == 0)"
            ),
            for_s=60,
            summary="{{ $labels.pod }} has running requests and makes no token; its /health still answers",
            action="keep its log, then delete the pod",
        ),
        Alert(
            name="HttpErrors",
            severity="P0",
            expression=(
                f'(\n  sum(rate(http_requests_total{{{requests},status=~"5.."}}{WINDOW}))\n'
                f"  / sum(rate(http_requests_total{{{requests}}}{WINDOW}))\n) > {limits.error_share}\n{enough}"
            ),
            for_s=120,
            summary="{{ $value | humanizePercentage }} of the requests end in HTTP 5xx",
            action=f"modelctl rollback {name} --env ENV, when it began with a rollout",
        ),
        Alert(
            name="StreamErrors",
            severity="P1",
            expression=(
                f'(\n  sum(rate({outcomes}{{{engine},finished_reason="error"}}{WINDOW}))\n'
                f"  / sum(rate({outcomes}{{{engine}}}{WINDOW}))\n) > {canary.error_share}\n{enough}"
            ),
            for_s=300,
            summary="{{ $value | humanizePercentage }} of the answers end in an error inside HTTP 200",
            action="look for the engine's traceback in its log",
        ),
        Alert(
            name="SlowFirstToken",
            severity="P1",
            expression=(
                "histogram_quantile(0.95, sum by (le) "
                f"(rate(vllm:time_to_first_token_seconds_bucket{{{engine}}}{WINDOW}))) > {limits.ttft_p95_s}\n{enough}"
            ),
            for_s=300,
            summary="one request in twenty waits {{ $value | humanizeDuration }} or longer for its first token",
            action="compare with the knee in the release's report; add replicas, or shorten prompts",
        ),
        Alert(
            name="RequestsWaiting",
            severity="P1",
            expression=f"max by (pod) (min_over_time(vllm:num_requests_waiting{{{engine}}}[5m])) >= {canary.waiting}",
            for_s=60,
            summary="{{ $value }} requests or more waited in {{ $labels.pod }} for five minutes",
            action="add replicas: the release was admitted with fewer waiting",
        ),
        Alert(
            name="KvCacheFull",
            severity="P1",
            expression=(
                f"max by (pod) (min_over_time(vllm:kv_cache_usage_perc{{{engine}}}{WINDOW})) > {limits.kv_cache_share}"
            ),
            for_s=60,
            summary="the KV cache of {{ $labels.pod }} is {{ $value | humanizePercentage }} full",
            action="modelctl size says how many streams of which length fit; add replicas",
        ),
        Alert(
            name="Preemptions",
            severity="P2",
            expression=f"sum by (pod) (increase(vllm:num_preemptions_total{{{engine}}}[30m])) > 0",
            for_s=0,
            summary="{{ $labels.pod }} threw requests out of its KV cache and computed them again",
            action="lower max_num_seqs or the maximum length, by a new release",
        ),
        Alert(
            name="EngineRestarts",
            severity="P1",
            expression=f"sum(changes(process_start_time_seconds{{{engine}}}[1h])) > 2",
            for_s=0,
            summary="engines were started anew {{ $value }} times in an hour",
            action=f"kubectl -n {environment.namespace} logs --previous",
        ),
    ]
    return (*found, *(_gpu_alerts(environment, name) if gpus else ()))


def rule(environment: Environment, name: str, *, gpus: int) -> Manifest:
    """The PrometheusRule manifest."""
    rules: list[Json] = [_rule(environment, name, alert) for alert in alerts(environment, name, gpus=gpus)]
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": name, "namespace": environment.namespace, "labels": labels(name, environment)},
        "spec": {"groups": [{"name": f"modelctl-{name}", "rules": rules}]},
    }


def _gpu_alerts(environment: Environment, name: str) -> tuple[Alert, ...]:
    gpu = f'namespace="{environment.namespace}",pod=~"{name}-.*"'
    used, free = f"DCGM_FI_DEV_FB_USED{{{gpu}}}", f"DCGM_FI_DEV_FB_FREE{{{gpu}}}"
    return (
        Alert(
            name="GpuMemoryFull",
            severity="P2",
            expression=(f"max by (pod, gpu) ({used} / ({used} + {free})) > {environment.alerts.gpu_memory_share}"),
            for_s=600,
            summary="GPU {{ $labels.gpu }} of {{ $labels.pod }} is {{ $value | humanizePercentage }} full",
            action="the engine reserves its share when it starts: what came on top of it is not the engine's",
        ),
        Alert(
            name="GpuEccErrors",
            severity="P0",
            expression=(
                f"sum by (pod, gpu) (increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{gpu}}}[30m])) > 0\n"
                f"or sum by (pod, gpu) (increase(DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{{{gpu}}}[30m])) > 0\n"
                f"or max by (pod, gpu) (DCGM_FI_DEV_ROW_REMAP_FAILURE{{{gpu}}}) > 0"
            ),
            for_s=0,
            summary="GPU {{ $labels.gpu }} of {{ $labels.pod }} had memory errors that it could not correct",
            action="drain the node: answers of this GPU can't be trusted",
        ),
    )


def _rule(environment: Environment, name: str, alert: Alert) -> Manifest:
    runbook = environment.alerts.runbook_url
    return {
        "alert": f"Model{alert.name}",
        "expr": alert.expression,
        **({"for": f"{alert.for_s}s"} if alert.for_s else {}),
        "labels": {"severity": alert.severity, "model": name, "team": environment.team},
        "annotations": {
            "summary": f"{name}: {alert.summary}",
            "action": alert.action,
            **({"runbook_url": f"{runbook}#{alert.name.lower()}"} if runbook else {}),
        },
    }
