"""Rules about what is measured: analyses that can pass and fail and stay undecided, alerts, dashboards, and PromQL that
parses and asks for what engines have.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from modelctl.errors import CannotDecideError
from modelctl.rollout.dashboards import SIDECAR_LABEL
from modelctl.rollout.lint.folder import Fault, Folder, Manifest, dig, items, table
from modelctl.rollout.lint.strategy import DURATION
from modelctl.rollout.metric_names import KNOWN, RENAMED

_ARGUMENT = re.compile(r"\{\{\s*args\.([\w-]+)\s*\}\}")
_NAME = re.compile(r'([=~]\s*)"[\w-]+((?:\.\*)?)"')
"""What a matcher compares with, where that is a plain name, alone or with `.*`."""
_VARIABLE = re.compile(r"\$__(rate_)?interval\b")
"""Grafana's own: a duration. Other variables stand in quotes."""
_PROMETHEUS_DURATION = re.compile(r"(\d+(ms|s|m|h|d|w|y))+")
PROVIDERS = (
    "prometheus", "web", "job", "datadog", "newRelic", "wavefront", "kayenta", "cloudWatch", "graphite", "influxdb",
    "skywalking", "plugin",
)  # fmt: skip
GUARDS = ("len(result)", "isNaN(")
SEVERITIES = ("P0", "P1", "P2")


def check_measured(folder: Folder) -> Iterator[Fault]:
    """All faults of the folder's AnalysisTemplates, PrometheusRules and KEDA queries.

    Raises `CannotDecideError` where PromQL can't be parsed on this machine.
    """
    for template in folder.of_kind("AnalysisTemplate", "ClusterAnalysisTemplate"):
        for metric in items(template.at("spec", "metrics")):
            yield from _metric(template, metric)
    for rule in folder.of_kind("PrometheusRule"):
        for group in items(rule.at("spec", "groups")):
            for entry in items(dig(group, "rules")):
                yield from _alert(rule, entry)
    for scaled in folder.of_kind("ScaledObject"):
        for trigger in items(scaled.at("spec", "triggers")):
            if dig(trigger, "type") == "prometheus":
                yield from _query(scaled, "trigger", dig(trigger, "metadata", "query"))
    for board in folder.of_kind("ConfigMap"):
        if table(board.at("metadata", "labels")).get(SIDECAR_LABEL) is not None:
            yield from _dashboard(board)


def _metric(template: Manifest, metric: Any) -> Iterator[Fault]:
    name = dig(metric, "name")
    for key in ("successCondition", "failureCondition"):
        condition = str(dig(metric, key) or "")
        if not condition:
            yield template.fault("condition", f"metric {name} has no {key}: with one alone, silence is a verdict")
        elif not all(guard in condition for guard in GUARDS):
            yield template.fault(
                "condition",
                f"metric {name}: {key} is not guarded by len(result) and isNaN: an empty answer is an error",
            )
    for key in ("interval", "initialDelay"):
        value = dig(metric, key)
        if value is not None and not DURATION.fullmatch(str(value)):
            yield template.fault("duration", f"metric {name}: {key} '{value}': wanted a number with s, m or h")
    providers = table(dig(metric, "provider"))
    asked = [provider for provider in PROVIDERS if providers.get(provider)]
    if len(asked) != 1 or len(providers) != 1:
        found = ", ".join(map(str, providers)) or "none"
        yield template.fault("provider", f"metric {name} wants one provider of Argo Rollouts; found {found}")
    prometheus = dig(providers, "prometheus")
    if prometheus is not None:
        declared = {str(dig(argument, "name")) for argument in items(template.at("spec", "args"))}
        query = str(dig(prometheus, "query") or "")
        for argument in sorted(set(_ARGUMENT.findall(query)) - declared):
            yield template.fault("argument", f"metric {name} uses args.{argument}, which the template does not declare")
        yield from _query(template, f"metric {name}", _ARGUMENT.sub("filled", query))


def _alert(rule: Manifest, entry: Any) -> Iterator[Fault]:
    name = dig(entry, "alert") or dig(entry, "record")
    yield from _query(rule, f"rule {name}", dig(entry, "expr"))
    if dig(entry, "alert") is None:
        return
    severity = dig(entry, "labels", "severity")
    if severity not in SEVERITIES:
        yield rule.fault("severity", f"alert {name} has severity {severity}: wanted {', '.join(SEVERITIES)}")
    if not dig(entry, "annotations", "summary"):
        yield rule.fault("summary", f"alert {name} has no summary: whoever is woken by it reads only a name")
    held = dig(entry, "for")
    if held is not None and not _PROMETHEUS_DURATION.fullmatch(str(held)):
        yield rule.fault("duration", f"alert {name}: for '{held}' is no duration")


def _dashboard(board: Manifest) -> Iterator[Fault]:
    for key, text in table(board.at("data")).items():
        try:
            body = json.loads(str(text))
        except ValueError as error:
            yield board.fault("dashboard", f"{key} is not JSON: {error}")
            continue
        for panel in items(dig(body, "panels")):
            for target in items(dig(panel, "targets")):
                query = _VARIABLE.sub("5m", str(dig(target, "expr") or ""))
                yield from _query(board, f"{key}, panel {dig(panel, 'title')}", query)


def _query(manifest: Manifest, where: str, query: Any) -> Iterator[Fault]:
    try:
        import promql_parser
    except ImportError as error:
        raise CannotDecideError(
            "PromQL can't be parsed here: promql-parser is not installed", remedy="pip install 'modelctl[lint]'"
        ) from error
    if not str(query or "").strip():
        yield manifest.fault("query", f"{where} has no query")
        return
    asked = selectors(_NAME.sub(r'\1"a\2"', str(query)))
    if asked is None:
        try:
            promql_parser.parse(str(query))
        except ValueError as error:
            yield manifest.fault("query", f"{where}: not PromQL: {' '.join(str(error).split())}")
        return
    for metric, labels in asked:
        yield from _names(manifest, where, metric, labels)


def _names(manifest: Manifest, where: str, metric: str, labels: frozenset[str]) -> Iterator[Fault]:
    """Old names and slips: a query for what is not there is no error in Prometheus, it is silence.

    A name that is only unknown is let pass: engines newer than our list have more.
    """
    if metric in RENAMED:
        yield manifest.fault("metric", f"{where}: {metric} is the old name of {RENAMED[metric]}")
        return
    if not metric.startswith("vllm:") and metric != "http_requests_total":
        return
    if metric not in KNOWN:
        close = difflib.get_close_matches(metric, KNOWN, n=1, cutoff=0.9)
        if close:
            yield manifest.fault("metric", f"{where}: vLLM has no {metric}: did you mean {close[0]}?")
        return
    for label in sorted(labels - KNOWN[metric]):
        meant = difflib.get_close_matches(label, KNOWN[metric], n=1, cutoff=0.7)
        if meant:
            yield manifest.fault("label", f"{where}: {metric} has no label {label}: did you mean {meant[0]}?")


@lru_cache(maxsize=4096)
def selectors(query: str) -> tuple[tuple[str, frozenset[str]], ...] | None:
    """The metrics that a query asks for, each with the labels that it names there; None when it is not PromQL.

    Remembered, since the queries of a thousand models differ in their names alone.
    """
    import promql_parser

    found: list[tuple[str, frozenset[str]]] = []

    def visit(node: object) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            found.append((node.name or "", frozenset(matcher.name for matcher in node.matchers.matchers)))
        return True

    try:
        promql_parser.walk(promql_parser.parse(query), visit)
    except ValueError:
        return None
    return tuple(found)
