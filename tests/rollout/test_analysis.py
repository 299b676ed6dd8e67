from __future__ import annotations

import re
from typing import Any

import promql_parser
import pytest

from modelctl.rollout.analysis import KNOWN, measurements, template
from tests.support.rollouts import an_environment

KNOWN_METRICS = {
    "http_requests_total",
    "vllm:request_success_total",
    "vllm:time_to_first_token_seconds_bucket",
    "vllm:time_to_first_token_seconds_sum",
    "vllm:time_to_first_token_seconds_count",
    "vllm:inter_token_latency_seconds_bucket",
    "vllm:inter_token_latency_seconds_sum",
    "vllm:inter_token_latency_seconds_count",
    "vllm:num_preemptions_total",
    "vllm:num_requests_waiting",
    "vllm:num_requests_running",
    "vllm:iteration_tokens_total_count",
    "vllm:e2e_request_latency_seconds_count",
}
KNOWN_LABELS = {"namespace", "rollouts_pod_template_hash", "handler", "status", "finished_reason"}


def filled(query: str) -> str:
    return query.replace("{{args.canary-hash}}", "new").replace("{{args.stable-hash}}", "old")


def metrics(**changes: Any) -> list[dict[str, Any]]:
    spec = template(an_environment(**changes), "tiny")["spec"]
    assert isinstance(spec, dict)
    return list(spec["metrics"])


@pytest.mark.parametrize("measurement", measurements(an_environment()), ids=lambda item: item.name)
def test_every_query_parses_and_asks_for_what_the_engine_has(measurement: Any) -> None:
    query = filled(measurement.query)
    assert "{{" not in query
    promql_parser.parse(query)
    selectors = re.findall(r"([\w:]+)\{([^}]*)\}", query)
    assert selectors
    for name, matchers in selectors:
        assert name in KNOWN_METRICS
        labels = set(re.findall(r'(\w+)=~?"', matchers))
        assert labels <= KNOWN_LABELS
        assert {"namespace", "rollouts_pod_template_hash"} <= labels


def test_both_conditions_are_there_and_nothing_meets_both_or_is_guessed() -> None:
    opposite = {"<=": ">", "<": ">=", "==": ">"}
    for metric in metrics():
        good, bad = metric["successCondition"], metric["failureCondition"]
        assert good.startswith(f"{KNOWN} && result[0] ")
        assert bad.startswith(f"{KNOWN} && result[0] ")
        good_sign, limit = good.removeprefix(f"{KNOWN} && result[0] ").split()
        assert bad.removeprefix(f"{KNOWN} && result[0] ") == f"{opposite[good_sign]} {limit}"


def test_every_measurement_but_the_stall_waits_for_enough_requests() -> None:
    for metric in metrics(canary__limits={"min_requests": 123}):
        query = metric["provider"]["prometheus"]["query"]
        assert (">= 123" in query) == (metric["name"] != "stalled")


def test_a_silent_canary_pauses_the_rollout_before_its_first_step_ends() -> None:
    environment = an_environment()
    for metric in metrics():
        delay, interval = (int(metric[key].removesuffix("s")) for key in ("initialDelay", "interval"))
        noticed = delay + (metric["inconclusiveLimit"] + 1) * interval
        assert noticed < environment.canary.pause_s
