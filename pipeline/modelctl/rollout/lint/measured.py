"""Rules about what is measured: analyses that can pass and fail and stay undecided, alerts, and PromQL that parses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from modelctl.errors import CannotDecideError
from modelctl.rollout.lint.folder import Fault, Folder, Manifest, dig, items, table
from modelctl.rollout.lint.strategy import DURATION

_ARGUMENT = re.compile(r"\{\{\s*args\.([\w-]+)\s*\}\}")
_NAME = re.compile(r'([=~]\s*)"[\w-]+((?:\.\*)?)"')
"""What a matcher compares with, where that is a plain name, alone or with `.*`."""
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
    try:
        if not _parses(_NAME.sub(r'\1"a\2"', str(query))):
            promql_parser.parse(str(query))
    except ValueError as error:
        yield manifest.fault("query", f"{where}: not PromQL: {' '.join(str(error).split())}")


@lru_cache(maxsize=4096)
def _parses(query: str) -> bool:
    """Whether it is PromQL; remembered, since the queries of a thousand models differ in their names alone."""
    import promql_parser

    try:
        promql_parser.parse(query)
    except ValueError:
        return False
    return True
