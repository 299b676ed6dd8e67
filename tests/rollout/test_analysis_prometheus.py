"""A real Prometheus answers every query as rendered, about canaries that are good, bad in one way each, and silent."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from modelctl.rollout.analysis import template
from modelctl.services.process import running
from modelctl.services.prometheus import prometheus
from tests.support.rollouts import an_environment

STEP_S, LENGTH_S = 15, 1800
FAST = {"0.1": 0.2, "0.25": 0.8, "0.5": 0.98, "1.0": 1.0, "+Inf": 1.0}
SLOW = {"0.1": 0.0, "0.25": 0.3, "0.5": 0.7, "1.0": 0.97, "+Inf": 1.0}
HEAVY_TAIL = {"0.1": 0.2, "0.25": 0.8, "0.5": 0.94, "1.0": 1.0, "+Inf": 1.0}
METRICS = (
    "http-errors",
    "stream-errors",
    "ttft-ratio",
    "inter-token-ratio",
    "runaway-length",
    "preemptions",
    "waiting",
    "stalled",
)
UNDECIDED_BUT_ALIVE = dict.fromkeys(METRICS[:-1], "inconclusive")


@dataclass(frozen=True, kw_only=True)
class Engine:
    """How one pod behaves, all the time."""

    requests_per_s: float = 1.0
    http_errors: float = 0.0
    stream_errors: float = 0.0
    buckets: Mapping[str, float] = field(default_factory=lambda: FAST)
    ttft_mean_s: float = 0.2
    token_buckets: Mapping[str, float] = field(default_factory=lambda: FAST)
    token_mean_s: float = 0.2
    cut: float = 0.1
    """Share of the answers that end at the length limit."""
    preemptions_per_s: float = 0.0
    waiting: int = 1
    running: int = 4
    hung: bool = False
    busy_from_s: int = 0
    """Seconds after the start when the first request comes to run."""


GOOD = Engine()
SCENARIOS: dict[str, tuple[list[Engine], Mapping[str, str]]] = {
    "good": ([GOOD, GOOD], {}),
    "http-errors": ([Engine(http_errors=0.05)], {"http-errors": "failed"}),
    "stream-errors": ([Engine(stream_errors=0.05)], {"stream-errors": "failed"}),
    "slow": ([Engine(buckets=SLOW, ttft_mean_s=0.4)], {"ttft-ratio": "failed"}),
    "tail-within-noise": ([Engine(buckets=HEAVY_TAIL, ttft_mean_s=0.21)], {}),
    "slow-tokens": ([Engine(token_buckets=SLOW, token_mean_s=0.4)], {"inter-token-ratio": "failed"}),
    "babbling": ([Engine(cut=0.3)], {"runaway-length": "failed"}),
    "babbling-a-little-more": ([Engine(cut=0.15)], {}),
    "preempting": ([GOOD, Engine(preemptions_per_s=0.05)], {"preemptions": "failed"}),
    "queueing": ([GOOD, Engine(waiting=9)], {"waiting": "failed"}),
    "one-pod-hung": ([GOOD, Engine(requests_per_s=0, hung=True)], {"stalled": "failed"}),
    "first-request-just-now": ([GOOD, Engine(requests_per_s=0, hung=True, busy_from_s=LENGTH_S - 30)], {}),
    "few-requests": ([Engine(requests_per_s=0.05)], UNDECIDED_BUT_ALIVE),
    "silent": ([Engine(requests_per_s=0, running=0, hung=True)], UNDECIDED_BUT_ALIVE),
    "absent": ([], dict.fromkeys(METRICS, "inconclusive")),
}


def samples(pod: str, release: str, engine: Engine, start: int) -> Iterator[str]:
    """OpenMetrics lines of one pod's whole life."""
    base = f'namespace="models-prod",pod="{pod}",rollouts_pod_template_hash="{release}"'
    for second in range(0, LENGTH_S + 1, STEP_S):
        served = engine.requests_per_s * second
        errors, cut = served * engine.stream_errors, served * engine.cut
        busy = second >= engine.busy_from_s
        values = {
            f'http_requests_total{{{base},handler="/v1/completions",status="2xx"}}': served * (1 - engine.http_errors),
            f'http_requests_total{{{base},handler="/v1/completions",status="5xx"}}': served * engine.http_errors,
            f'http_requests_total{{{base},handler="/health",status="5xx"}}': float(second),
            f'vllm:request_success_total{{{base},finished_reason="stop"}}': served - errors - cut,
            f'vllm:request_success_total{{{base},finished_reason="length"}}': cut,
            f'vllm:request_success_total{{{base},finished_reason="error"}}': errors,
            f"vllm:e2e_request_latency_seconds_count{{{base}}}": served,
            f"vllm:time_to_first_token_seconds_count{{{base}}}": served,
            f"vllm:time_to_first_token_seconds_sum{{{base}}}": served * engine.ttft_mean_s,
            f"vllm:inter_token_latency_seconds_count{{{base}}}": served,
            f"vllm:inter_token_latency_seconds_sum{{{base}}}": served * engine.token_mean_s,
            f"vllm:num_preemptions_total{{{base}}}": engine.preemptions_per_s * second,
            f"vllm:num_requests_waiting{{{base}}}": float(engine.waiting),
            f"vllm:num_requests_running{{{base}}}": float(engine.running if busy else 0),
            f"vllm:iteration_tokens_total_count{{{base}}}": 0.0 if engine.hung else 50.0 * second,
        }
        for name, buckets in (("time_to_first_token", engine.buckets), ("inter_token_latency", engine.token_buckets)):
            for edge, share in buckets.items():
                values[f'vllm:{name}_seconds_bucket{{{base},le="{edge}"}}'] = served * share
        for series, value in values.items():
            yield f"{series} {value} {start + second}"


@dataclass(frozen=True)
class Answers:
    """Asks a Prometheus at the end of the engines' lives."""

    address: str
    at: int

    def values(self, query: str) -> list[float]:
        parameters = urllib.parse.urlencode({"query": query, "time": self.at})
        with urllib.request.urlopen(f"{self.address}/api/v1/query?{parameters}", timeout=10) as answer:
            return [float(row["value"][1]) for row in json.load(answer)["data"]["result"]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    folder = tmp_path_factory.mktemp("prometheus")
    promtool = shutil.which("promtool")
    assert promtool, "promtool is not installed: apt-get install prometheus"
    start = int(time.time()) - LENGTH_S - 60
    lines = [
        line
        for name, engines in (("old", [GOOD, GOOD]), *((name, engines) for name, (engines, _) in SCENARIOS.items()))
        for index, engine in enumerate(engines)
        for line in samples(f"{name}-{index}", name, engine, start)
    ]
    (folder / "metrics.txt").write_text("\n".join([*lines, "# EOF", ""]), encoding="utf-8")
    create = [promtool, "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
    subprocess.run([*create, str(folder / "metrics.txt"), str(folder / "data")], check=True, capture_output=True)
    with running(prometheus(folder, targets=[])) as service:
        yield Answers(service.address, start + LENGTH_S)


def judge(metric: Mapping[str, Any], result: list[float]) -> str:
    """What Argo Rollouts makes of an answer, by the two conditions as rendered."""
    met = {condition: evaluate(metric[condition], result) for condition in ("successCondition", "failureCondition")}
    assert not all(met.values())
    return "passed" if met["successCondition"] else "failed" if met["failureCondition"] else "inconclusive"


def evaluate(condition: str, result: list[float]) -> bool:
    words = condition.replace("&&", "and").replace("!isNaN", "not isNaN")
    return bool(eval(words, {"__builtins__": {}}, {"result": result, "len": len, "isNaN": math.isnan}))


@pytest.mark.services
@pytest.mark.parametrize("name", SCENARIOS)
def test_each_canary_is_judged_as_it_behaves(name: str, answers: Answers) -> None:
    spec = template(an_environment(), "tiny")["spec"]
    assert isinstance(spec, dict)
    found = {}
    for metric in spec["metrics"]:
        query = metric["provider"]["prometheus"]["query"]
        query = query.replace("{{args.canary-hash}}", name).replace("{{args.stable-hash}}", "old")
        found[metric["name"]] = judge(metric, answers.values(query))
    assert found == {**dict.fromkeys(METRICS, "passed"), **SCENARIOS[name][1]}


@pytest.mark.services
@pytest.mark.parametrize("name", ["ttft-ratio", "inter-token-ratio", "runaway-length"])
def test_a_silent_stable_release_decides_nothing_in_comparison(name: str, answers: Answers) -> None:
    spec = template(an_environment(), "tiny")["spec"]
    assert isinstance(spec, dict)
    (metric,) = [metric for metric in spec["metrics"] if metric["name"] == name]
    query = metric["provider"]["prometheus"]["query"]
    for stable in ("silent", "few-requests", "absent"):
        filled = query.replace("{{args.canary-hash}}", "good").replace("{{args.stable-hash}}", stable)
        assert judge(metric, answers.values(filled)) == "inconclusive"
