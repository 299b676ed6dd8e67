"""Every alert fires for its fault alone, says what to do, and asks for what engines have; promtool runs the rules."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import promql_parser
import pytest

from modelctl.rollout.alerts import ENOUGH, alerts, rule
from tests.support.rollouts import an_environment

ENGINE = 'namespace="models-prod",app_kubernetes_io_name="tiny",pod="tiny-1"'
GPU = 'namespace="models-prod",pod="tiny-1",gpu="0"'
MINUTES = 70
V1 = f'{ENGINE},handler="/v1/chat/completions"'


def counter(per_minute: float) -> str:
    return f"0+{per_minute}x{MINUTES}"


def gauge(value: float) -> str:
    return f"{value}+0x{MINUTES}"


HEALTHY: Mapping[str, str] = {
    f"up{{{ENGINE}}}": gauge(1),
    f"process_start_time_seconds{{{ENGINE}}}": gauge(1_700_000_000),
    f"vllm:num_requests_running{{{ENGINE}}}": gauge(4),
    f"vllm:num_requests_waiting{{{ENGINE}}}": gauge(1),
    f"vllm:iteration_tokens_total_count{{{ENGINE}}}": counter(600),
    f"vllm:kv_cache_usage_perc{{{ENGINE}}}": gauge(0.5),
    f"vllm:num_preemptions_total{{{ENGINE}}}": gauge(3),
    f"vllm:e2e_request_latency_seconds_count{{{ENGINE}}}": counter(60),
    f'http_requests_total{{{V1},status="2xx"}}': counter(60),
    f'http_requests_total{{{V1},status="5xx"}}': counter(0.3),
    f'http_requests_total{{{ENGINE},handler="/health",status="5xx"}}': counter(60),
    f'vllm:request_success_total{{{ENGINE},finished_reason="stop"}}': counter(60),
    f'vllm:request_success_total{{{ENGINE},finished_reason="error"}}': counter(0.1),
    f'vllm:time_to_first_token_seconds_bucket{{{ENGINE},le="1.0"}}': counter(59),
    f'vllm:time_to_first_token_seconds_bucket{{{ENGINE},le="10.0"}}': counter(60),
    f'vllm:time_to_first_token_seconds_bucket{{{ENGINE},le="+Inf"}}': counter(60),
    f"DCGM_FI_DEV_FB_USED{{{GPU}}}": gauge(74_000),
    f"DCGM_FI_DEV_FB_FREE{{{GPU}}}": gauge(7_000),
    f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{GPU}}}": gauge(2),
    f"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{{{GPU}}}": gauge(1),
    f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{GPU}}}": gauge(0),
}
FAULTS: Mapping[str, Mapping[str, str]] = {
    "EngineDown": {f"up{{{ENGINE}}}": gauge(0)},
    "EngineStalled": {f"vllm:iteration_tokens_total_count{{{ENGINE}}}": gauge(900)},
    "HttpErrors": {f'http_requests_total{{{V1},status="5xx"}}': counter(6)},
    "StreamErrors": {f'vllm:request_success_total{{{ENGINE},finished_reason="error"}}': counter(3)},
    "SlowFirstToken": {f'vllm:time_to_first_token_seconds_bucket{{{ENGINE},le="1.0"}}': counter(30)},
    "RequestsWaiting": {f"vllm:num_requests_waiting{{{ENGINE}}}": gauge(5)},
    "KvCacheFull": {f"vllm:kv_cache_usage_perc{{{ENGINE}}}": gauge(0.97)},
    "Preemptions": {f"vllm:num_preemptions_total{{{ENGINE}}}": counter(0.2)},
    "EngineRestarts": {f"process_start_time_seconds{{{ENGINE}}}": f"0x20 1x20 2x20 3x{MINUTES}"},
    "GpuMemoryFull": {f"DCGM_FI_DEV_FB_FREE{{{GPU}}}": gauge(500)},
    "GpuEccErrors": {f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{GPU}}}": f"2x40 3x{MINUTES}"},
}
NAMES = [alert.name for alert in alerts(an_environment(), "tiny", gpus=1)]


def few_requests() -> dict[str, str]:
    """Every share is bad, and hardly anybody asks."""
    bad = {
        key: value for fault in ("HttpErrors", "StreamErrors", "SlowFirstToken") for key, value in FAULTS[fault].items()
    }
    count = f"vllm:e2e_request_latency_seconds_count{{{ENGINE}}}"
    return {**HEALTHY, **bad, count: counter((ENOUGH - 5) / 10)}


def firing(folder: Path, series: Mapping[str, str], names: list[str]) -> set[str]:
    """Which of the alerts fire after an hour, as Prometheus' own test runner evaluates the rendered rules."""
    promtool = shutil.which("promtool")
    assert promtool, "promtool is not installed: apt-get install prometheus"
    spec = rule(an_environment(), "tiny", gpus=1)["spec"]
    (folder / "rules.json").write_text(json.dumps(spec))
    quiet = [{"eval_time": "65m", "alertname": f"Model{name}", "exp_alerts": []} for name in names]
    test = {
        "rule_files": ["rules.json"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": key, "values": value} for key, value in series.items()],
                "alert_rule_test": quiet,
            }
        ],
    }
    (folder / "test.json").write_text(json.dumps(test))
    done = subprocess.run(
        [promtool, "test", "rules", "test.json"], cwd=folder, capture_output=True, text=True, check=False
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0 or "alertname" in told, told
    return {name for name in names if re.search(rf"alertname: ?\"?Model{name}\b", told)}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_alert_fires_for_its_fault_and_no_other_does(tmp_path: Path, fault: str) -> None:
    assert firing(tmp_path, {**HEALTHY, **FAULTS[fault]}, NAMES) == {fault}


@pytest.mark.parametrize(
    ("metric", "values"),
    [("UNCORRECTABLE_REMAPPED_ROWS", f"1x40 2x{MINUTES}"), ("ROW_REMAP_FAILURE", gauge(1))],
)
def test_memory_errors_are_seen_with_dcgm_exporters_default_list_too(metric: str, values: str, tmp_path: Path) -> None:
    series = {key: value for key, value in HEALTHY.items() if "ECC" not in key}
    assert firing(tmp_path, {**series, f"DCGM_FI_DEV_{metric}{{{GPU}}}": values}, NAMES) == {"GpuEccErrors"}


def test_every_alert_has_a_fault_and_a_healthy_engine_fires_none(tmp_path: Path) -> None:
    assert set(NAMES) == set(FAULTS)
    assert firing(tmp_path, HEALTHY, NAMES) == set()


def test_few_requests_fire_no_share_and_absence_fires_one_alert(tmp_path: Path) -> None:
    assert firing(tmp_path, few_requests(), NAMES) == set()
    assert firing(tmp_path, {'up{namespace="other"}': gauge(1)}, NAMES) == {"EngineDown"}


def test_queries_parse_and_every_alert_says_what_to_do() -> None:
    manifest: Any = rule(an_environment(alerts__runbook_url="https://runbooks.example.com/llm"), "tiny", gpus=1)
    for item in manifest["spec"]["groups"][0]["rules"]:
        promql_parser.parse(item["expr"])
        assert item["labels"]["severity"] in ("P0", "P1", "P2")
        assert item["annotations"]["action"]
        assert item["annotations"]["runbook_url"].startswith("https://runbooks.example.com/llm#")


def test_no_gpu_no_alert_about_one() -> None:
    assert not [alert for alert in alerts(an_environment(), "tiny", gpus=0) if alert.name.startswith("Gpu")]
