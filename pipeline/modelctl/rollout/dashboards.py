"""Grafana dashboards as ConfigMaps that Grafana's sidecar finds by their label: the service, its engines, their GPUs.

Each is a pure function of the environment and the model's name. The queries know the model by the template variables
`namespace` and `model`, so one dashboard shows any model; the variables begin with the one that it came with. The JSON
is Grafana's classic dashboard model, which Grafana 10 and later read. Thresholds are the environment's own limits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from modelctl.rollout.environment import Environment
from modelctl.rollout.labels import labels
from modelctl.rollout.manifest import Json, Manifest
from modelctl.rollout.panels.base import Panel
from modelctl.rollout.panels.engines import engine_panels
from modelctl.rollout.panels.gpus import gpu_panels
from modelctl.rollout.panels.service import service_panels

SIDECAR_LABEL = "grafana_dashboard"
FOLDER_ANNOTATION = "grafana_folder"
SCHEMA_VERSION = 39
_COLUMNS, _WIDTH, _HEIGHT = 2, 12, 8
"""Grafana's grid is 24 wide."""
_DATASOURCE: Manifest = {"type": "prometheus", "uid": "${datasource}"}
_REFRESH_ON_TIME_RANGE = 2


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """One dashboard."""

    key: str
    """Its part of the names: `service`, `instance`, `gpu`."""
    title: str
    panels: tuple[Panel, ...]


def dashboards(environment: Environment, *, gpus: int) -> tuple[Dashboard, ...]:
    """All dashboards of a model in an environment; that on GPUs only where a replica has one."""
    found = [
        Dashboard(key="service", title="service", panels=service_panels(environment)),
        Dashboard(key="instance", title="engines", panels=engine_panels(environment)),
    ]
    if gpus:
        found.append(Dashboard(key="gpu", title="GPUs", panels=gpu_panels(environment)))
    return tuple(found)


def config_maps(environment: Environment, name: str, *, gpus: int) -> tuple[Manifest, ...]:
    """The ConfigMaps; none when the environment asks for no dashboards."""
    wanted = environment.dashboards
    if wanted is None:
        return ()
    return tuple(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"{name}-dashboard-{item.key}",
                "namespace": environment.namespace,
                "labels": {**labels(name, environment), SIDECAR_LABEL: "1"},
                "annotations": {FOLDER_ANNOTATION: wanted.folder},
            },
            "data": {f"{environment.namespace}-{name}-{item.key}.json": text(item, environment, name)},
        }
        for item in dashboards(environment, gpus=gpus)
    )


def text(dashboard: Dashboard, environment: Environment, name: str) -> str:
    """The dashboard as Grafana's JSON."""
    return json.dumps(model(dashboard, environment, name), indent=1)


def model(dashboard: Dashboard, environment: Environment, name: str) -> Manifest:
    """The dashboard as Grafana's classic model."""
    namespace = environment.namespace
    place = f"{namespace}/{name}/{dashboard.key}"
    return {
        # Grafana allows 40 characters; two dashboards of one uid would overwrite each other.
        "uid": f"modelctl-{hashlib.sha256(place.encode()).hexdigest()[:24]}",
        "title": f"{name} ({namespace}): {dashboard.title}",
        "tags": ["modelctl", name, environment.team],
        "schemaVersion": SCHEMA_VERSION,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                _datasource_variable(),
                _variable("namespace", "label_values(vllm:num_requests_running, namespace)", namespace),
                _variable(
                    "model",
                    'label_values(vllm:num_requests_running{namespace="$namespace"}, app_kubernetes_io_name)',
                    name,
                ),
            ]
        },
        "panels": [_panel(item, number) for number, item in enumerate(dashboard.panels)],
    }


def _datasource_variable() -> Manifest:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1}


def _variable(name: str, query: str, current: str) -> Manifest:
    chosen: Manifest = {"selected": True, "text": current, "value": current}
    return {
        "name": name,
        "label": name,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": _REFRESH_ON_TIME_RANGE,
        "sort": 1,
        "current": chosen,
        "options": [chosen],
    }


def _panel(panel: Panel, number: int) -> Manifest:
    """A time series; thresholds are drawn as lines, since what is over them is meant to be seen."""
    targets: list[Json] = [
        {"refId": chr(ord("A") + index), "datasource": _DATASOURCE, "expr": query.expression,
         "legendFormat": query.legend, "editorMode": "code", "range": True}
        for index, query in enumerate(panel.queries)
    ]  # fmt: skip
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _DATASOURCE,
        "gridPos": {
            "x": _WIDTH * (number % _COLUMNS),
            "y": _HEIGHT * (number // _COLUMNS),
            "w": _WIDTH,
            "h": _HEIGHT,
        },
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                **({"max": panel.most} if panel.most is not None else {}),
                "custom": {
                    "drawStyle": "line",
                    "lineWidth": 1,
                    "fillOpacity": 8,
                    "showPoints": "never",
                    "spanNulls": False,
                    "thresholdsStyle": {"mode": "line" if panel.thresholds else "off"},
                },
                "thresholds": {"mode": "absolute", "steps": _steps(panel.thresholds)},
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": targets,
    }


def _steps(thresholds: Sequence[float]) -> list[Json]:
    """Green, then orange from the first limit on, red from the second; red at once where there is only one."""
    colours = ("orange", "red")[-len(thresholds) :] if thresholds else ()
    limits: list[Json] = [{"color": colour, "value": value} for colour, value in zip(colours, thresholds, strict=True)]
    return [{"color": "green", "value": None}, *limits]
