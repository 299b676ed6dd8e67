"""Dashboards are Grafana's model, and every panel asks for what engines and GPUs have, in PromQL that parses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from modelctl.rollout.alerts import alerts
from modelctl.rollout.analysis import measurements
from modelctl.rollout.dashboards import Dashboard, config_maps, dashboards
from modelctl.rollout.lint.measured import selectors
from modelctl.rollout.metric_names import KNOWN, SWITCHED_OFF, strangers
from modelctl.rollout.panels.base import Panel
from tests.support.rollouts import PROJECT, an_environment, documents

ENVIRONMENT = an_environment(dashboards={"folder": "Language models"})
BOARDS = dashboards(ENVIRONMENT, gpus=1)
PANELS = [(board, panel) for board in BOARDS for panel in board.panels]
UNITS = {"s", "percentunit", "percent", "reqps", "ops", "short", "bytes", "watt", "celsius", "hertz"}
"""Of Grafana's own list (packages/grafana-data/src/valueFormats/categories.ts)."""


def asked(query: str) -> tuple[tuple[str, frozenset[str]], ...]:
    found = selectors(query.replace("$__rate_interval", "2m"))
    assert found, f"not PromQL, or no metric: {query}"
    return found


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=[f"{board.key}: {panel.title}" for board, panel in PANELS])
def test_a_panel_parses_and_asks_for_known_metrics(board: Dashboard, panel: Panel) -> None:
    assert panel.unit in UNITS
    assert panel.description.endswith(".")
    assert list(panel.thresholds) == sorted(set(panel.thresholds))
    for query in panel.queries:
        names = asked(query.expression)
        assert strangers(names) == ()
        assert not {name for name, _ in names} & SWITCHED_OFF
        grouped = set(re.findall(r"\bby \(([^)]*)\)", query.expression.rsplit("[", 1)[0]))
        labels = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
        assert all(any(label in group.split(", ") for group in grouped) for label in labels), query


def test_the_canary_and_the_alerts_ask_for_known_metrics_too() -> None:
    canary = [item.query.replace("{{", "").replace("}}", "") for item in measurements(ENVIRONMENT)]
    for query in [*canary, *(alert.expression for alert in alerts(ENVIRONMENT, "tiny", gpus=1))]:
        assert strangers(asked(query)) == ()


def test_a_metric_that_nobody_has_would_be_seen() -> None:
    assert strangers(asked('rate(vllm:no_such_total{pod="a"}[5m])')) == ("no metric vllm:no_such_total",)
    assert strangers(asked('vllm:num_requests_running{handler="a"}')) == (
        "vllm:num_requests_running has no label handler",
    )


@pytest.mark.engine
def test_the_known_names_are_those_of_the_engine() -> None:
    sources = [*(PROJECT / ".venv-engine").glob("lib/python3*/site-packages/vllm/v1/metrics/*.py")]
    sources += (PROJECT / ".venv-engine").glob("lib/python3*/site-packages/vllm/v1/spec_decode/metrics.py")
    assert sources, "the engine's environment is missing: make setup"
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    there = set(re.findall(r'"(vllm:\w+)"', text))
    for name in KNOWN:
        if name.startswith("vllm:"):
            base = re.sub(r"_(bucket|count|sum)$", "", name)
            assert base in there or base.removesuffix("_total") in there, name


def test_they_are_found_by_the_sidecar_and_share_no_identity() -> None:
    maps: Any = config_maps(ENVIRONMENT, "tiny", gpus=1)
    assert [item["metadata"]["name"] for item in maps] == [
        "tiny-dashboard-service",
        "tiny-dashboard-instance",
        "tiny-dashboard-gpu",
    ]
    uids = set()
    for item in [*maps, *config_maps(ENVIRONMENT, "other", gpus=1)]:
        assert item["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert item["metadata"]["annotations"] == {"grafana_folder": "Language models"}
        ((file, text),) = item["data"].items()
        assert file.endswith(".json")
        body = json.loads(text)
        assert len(body["uid"]) <= 40
        uids.add(body["uid"])
        assert [variable["name"] for variable in body["templating"]["list"]] == ["datasource", "namespace", "model"]
        assert body["templating"]["list"][2]["current"]["value"] in ("tiny", "other")
    assert len(uids) == 6


def test_panels_lie_side_by_side_and_never_on_each_other() -> None:
    (item, *_) = config_maps(ENVIRONMENT, "tiny", gpus=0)
    body = json.loads(next(iter(item["data"].values())))  # type: ignore[union-attr,arg-type]
    places = [panel["gridPos"] for panel in body["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    assert len({(place["x"], place["y"]) for place in places}) == len(places)
    assert [panel["id"] for panel in body["panels"]] == list(range(1, len(places) + 1))


def test_no_gpu_no_gpu_dashboard_and_nobody_asked_no_dashboard() -> None:
    assert [board.key for board in dashboards(ENVIRONMENT, gpus=0)] == ["service", "instance"]
    assert config_maps(an_environment(), "tiny", gpus=1) == ()


def test_limits_are_the_environments() -> None:
    environment = an_environment(dashboards={}, alerts__ttft_p95_s=2.5, canary__limits={"waiting": 7})
    boards = {board.key: {panel.title: panel for panel in board.panels} for board in dashboards(environment, gpus=1)}
    assert boards["service"]["Time to first token"].thresholds == (2.5,)
    assert boards["instance"]["Waiting requests"].thresholds == (7,)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    from modelctl.rollout.manifest import dump

    maps = config_maps(ENVIRONMENT, "tiny", gpus=1)
    read = list(documents(dump(maps)))
    assert read == json.loads(json.dumps(maps))
