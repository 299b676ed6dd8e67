"""A panel of a dashboard: what it asks Prometheus, and how the answer is to be read.

Canary and stable are told apart by the pod hash that the PodMonitor keeps. `$__rate_interval` is Grafana's: four scrape
intervals or more, so that a rate never has too few samples.
"""

from __future__ import annotations

from dataclasses import dataclass

from modelctl.rollout.manifest import HASH_LABEL, NAME_LABEL, series_label

RATE = "$__rate_interval"
HASH = series_label(HASH_LABEL)
ENGINE = f'namespace="$namespace",{series_label(NAME_LABEL)}="$model"'


@dataclass(frozen=True, kw_only=True)
class Query:
    """One question, and the name of each line of its answer."""

    expression: str
    legend: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel."""

    title: str
    description: str
    """What a person should take from it."""
    unit: str
    """Grafana's name of the unit (`s`, `percentunit`, `reqps`, `short` …)."""
    queries: tuple[Query, ...]
    thresholds: tuple[float, ...] = ()
    """Where it becomes noteworthy, then bad; one alone is bad."""
    most: float | None = None
    """The end of the scale, where there is one."""


def query(expression: str, legend: str) -> Query:
    """One question."""
    return Query(expression=expression, legend=legend)
