"""Every flag is there with its reason, and what was never measured is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from modelctl.admission.report import CheckReport
from modelctl.checks.base import Measurement
from modelctl.rollout.evidence import Evidence, evidence_of
from modelctl.rollout.flags import engine_arguments
from modelctl.rollout.render import render
from tests.support.reports import a_check, a_report
from tests.support.rollouts import a_release, a_serving, an_environment, documents

MEASURED = Evidence(longest_answered=8192, streams=100, kv_tokens=250_000)


def lines(evidence: Evidence | None = MEASURED, **changes: Any) -> list[str]:
    """The lines of the engine's arguments as they are written."""
    text = render(a_release(), a_serving(), an_environment(**changes), evidence).files["rollout.yaml"]
    return [line.strip().removeprefix("- ") for line in text.splitlines() if line.strip().startswith("- --")]


def test_what_was_measured_stands_beside_each_flag() -> None:
    found = lines()
    assert "--max-model-len=8192  # release.yaml; long-context answered up to 8192 tokens" in found
    assert "--max-num-seqs=128  # release.yaml; concurrency held 100 streams" in found
    assert (
        "--gpu-memory-utilization=0.9  # release.yaml; its KV cache held 250000 tokens, 30 streams of full length"
    ) in found
    assert "--block-size=16  # environment.yaml" in found


def test_what_nobody_measured_is_said() -> None:
    assert "--max-model-len=8192  # release.yaml; nobody measured it" in lines(None)


def test_a_comment_changes_no_value() -> None:
    text = render(a_release(), a_serving(), an_environment(), MEASURED).files["rollout.yaml"]
    (rollout,) = documents(text)
    read = rollout["spec"]["template"]["spec"]["containers"][0]["args"]
    assert read == list(engine_arguments(a_release(), a_serving(), an_environment()))


def test_more_than_was_measured_is_told_to_a_person() -> None:
    scaling = {"max_replicas": 20, "streams_per_replica": 64}
    router = {"kind": "nginx", "hostnames": ["a.example.com"]}
    environment = an_environment(autoscaling=scaling, router=router, gpu={"spare": 9})
    short = Evidence(longest_answered=4096, streams=32)
    notes = render(a_release(), a_serving(), environment, short).notes
    assert "tiny@1.0.0 is served up to 8192 tokens, and was seen to answer up to 4096" in notes
    assert "autoscaling counts on 64 streams a replica, and 32 were tried" in notes
    assert not [note for note in render(a_release(), a_serving(), environment, MEASURED).notes if "was seen" in note]


def test_no_text_of_a_user_is_logged() -> None:
    found = [line.partition("  #")[0] for line in lines()]
    assert "--no-enable-log-requests" in found
    assert "--no-enable-log-outputs" in found
    assert "--max-log-len=0" in found
    assert "--disable-access-log-for-endpoints=/health,/metrics" in found
    quiet = [line.partition("  #")[0] for line in lines(logs={"access": False, "requests": True})]
    assert "--disable-uvicorn-access-log" in quiet
    assert "--enable-log-requests" in quiet
    assert "--no-enable-log-outputs" in quiet


def test_traces_go_where_the_environment_says_and_name_the_release() -> None:
    tracing = {"endpoint": "http://otel.observability.svc:4317"}
    network = {"clients": ["apps"], "monitoring": "monitoring"}
    files = render(a_release(), a_serving(), an_environment(tracing=tracing, network=network)).files
    (rollout,) = documents(files["rollout.yaml"])
    engine = rollout["spec"]["template"]["spec"]["containers"][0]
    assert "--otlp-traces-endpoint=http://otel.observability.svc:4317" in engine["args"]
    variables = {item["name"]: item.get("value") for item in engine["env"]}
    assert variables["OTEL_SERVICE_NAME"] == "tiny"
    assert "service.version=1.0.0" in variables["OTEL_RESOURCE_ATTRIBUTES"]
    assert variables["OTEL_EXPORTER_OTLP_TRACES_INSECURE"] == "true"
    (policy,) = documents(files["network-policy.yaml"])
    assert "observability" in str(policy["spec"]["egress"])


def test_streamed_weights_are_verified_in_the_bucket_first() -> None:
    rendered = render(a_release(), a_serving(), an_environment(weights="stream"))
    (rollout,) = documents(rendered.files["rollout.yaml"])
    pod = rollout["spec"]["template"]["spec"]
    (first,) = pod["initContainers"]
    wanted = [
        "modelctl",
        "verify",
        "tiny@1.0.0",
        "--full",
        "--from",
        "s3://models",
        "--digest",
        a_release().tree_digest,
    ]
    assert first["command"] == wanted
    (engine,) = pod["containers"]
    assert engine["args"][0] == "s3://models/tiny/1.0.0/"
    assert "--load-format=runai_streamer" in engine["args"]
    variables = {item["name"]: item for item in engine["env"]}
    assert variables["AWS_ENDPOINT_URL"]["value"] == "http://minio.minio.svc:9000"
    assert variables["AWS_SECRET_ACCESS_KEY"]["valueFrom"]["secretKeyRef"] == {"name": "store", "key": "secret_key"}
    assert [volume["name"] for volume in pod["volumes"]] == ["scratch"]
    assert any("nothing verifies that second read" in note for note in rendered.notes)


@pytest.mark.parametrize("outcome", ["passed", "failed"])
def test_only_checks_that_passed_speak(outcome: Any) -> None:
    checks = (
        _check("long-context", outcome, Measurement(name="longest-answered", value=2048, unit="tokens")),
        _check(
            "concurrency",
            outcome,
            Measurement(name="achieved-streams", value=3.99, parameters={"streams": 4}),
            Measurement(name="engine-kv-pool", value=363, unit="blocks", parameters={"tokens": 46592}),
        ),
    )
    found = evidence_of(a_report(*checks))
    wanted = Evidence(longest_answered=2048, streams=4, kv_tokens=46592) if outcome == "passed" else Evidence()
    assert found == wanted


def _check(check_id: str, outcome: Any, *measurements: Measurement) -> CheckReport:
    return replace(a_check(check_id, outcome), measurements=measurements)
