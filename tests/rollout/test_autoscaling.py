"""Replicas follow the requests in flight, and a metric that is missing takes nobody down."""

from __future__ import annotations

from typing import Any

import promql_parser

from modelctl.rollout.autoscaling import scaled_object
from modelctl.rollout.workload import rollout
from tests.support.rollouts import a_release, a_serving, an_environment

SCALING = {"max_replicas": 20, "streams_per_replica": 24}


def spec() -> dict[str, Any]:
    found = scaled_object(an_environment(autoscaling=SCALING), "tiny")
    assert found is not None
    return dict(found["spec"])  # type: ignore[arg-type]


def test_silence_is_no_zero() -> None:
    (trigger,) = spec()["triggers"]
    assert trigger["metadata"]["ignoreNullValues"] == "false"
    promql_parser.parse(trigger["metadata"]["query"])
    assert "or vector(0)" not in trigger["metadata"]["query"]
    assert spec()["fallback"]["replicas"] == spec()["minReplicaCount"] == 9
    assert trigger["metricType"] == "AverageValue"  # KEDA's fallback works for no other


def test_replicas_have_one_owner() -> None:
    def body(**changes: Any) -> Any:
        return rollout(a_release(), a_serving(), an_environment(**changes), "tiny")["spec"]

    assert "replicas" not in body(autoscaling=SCALING)
    assert body()["replicas"] == 9
    assert scaled_object(an_environment(), "tiny") is None


def test_every_value_of_a_trigger_is_text_as_keda_wants_it() -> None:
    (trigger,) = spec()["triggers"]
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
