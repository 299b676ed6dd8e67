"""The charts of a report's page, from the figures of its checks; none where matplotlib is not installed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from statistics import fmean
from typing import TYPE_CHECKING

from modelctl.admission.report import CheckReport, Report
from modelctl.admission.subject_table import subjects
from modelctl.admission.terminal import printable
from modelctl.checks.base import Measurement

if TYPE_CHECKING:
    from modelctl.page.charts import Bars, Chart, Curve

SUBJECTS_DRAWN = 60


def charts_of(report: Report) -> list[tuple[str, str]]:
    """(title, svg) of each chart that the figures give."""
    if find_spec("matplotlib") is None:
        return []
    from modelctl.page.charts import draw

    return [(chart.title, draw(chart)) for check in report.checks for chart in _charts(check)]


def tall_charts_of(report: Report) -> list[tuple[str, str]]:
    """The same of charts with a row for each subject, which want the page's width."""
    if find_spec("matplotlib") is None:
        return []
    from modelctl.page.charts import Pairs, draw

    drawn = []
    for check in report.checks:
        found = subjects(check)
        if not found:
            continue
        shown = found[:SUBJECTS_DRAWN]
        rest = "" if len(found) == len(shown) else f": the {len(shown)} of {len(found)} that lost most"
        chart = Pairs(
            title=f"Accuracy by subject{rest}", x_label="share of the questions answered right",
            names=[_shortened(item.name) for item in shown],
            before=("original", [item.baseline_correct / item.questions for item in shown]),
            after=("served", [(item.baseline_correct + item.change) / item.questions for item in shown]),
        )  # fmt: skip
        drawn.append((chart.title, draw(chart)))
    return drawn


def _shortened(name: str) -> str:
    plain = printable(name).replace("$", "\\$")  # matplotlib reads formulas between dollars
    return plain if len(plain) <= 32 else plain[:31] + "…"


def _latencies(check: CheckReport) -> Bars | None:
    """How long one waits for the first token and for the whole answer, at the load that was run."""
    from modelctl.page.charts import Bars

    found = {item.name: item.value for item in reversed(check.measurements)}
    series = []
    for label, name in (("first token", "ttft"), ("whole answer", "latency")):
        values = [found.get(f"{name}-{percentile}") for percentile in ("p50", "p95", "p99")]
        numbers = [float(value) for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        if len(numbers) == len(values):
            series.append((label, numbers))
    if not series:
        return None
    names = ["half of them", "95 %", "99 %"]
    return Bars(title="Latency under load, at most", y_label="seconds", names=names, series=series)


def _charts(check: CheckReport) -> Iterator[Chart | Bars]:
    from modelctl.page.charts import Chart

    if latencies := _latencies(check):
        yield latencies
    if throughput := _over(check, "sweep-throughput", "streams", "throughput"):
        knee = next((item.value for item in check.measurements if item.name == "knee"), None)
        yield Chart(
            title="Throughput", x_label="streams", y_label="tokens/s", curves=[throughput],
            x_ticks=[int(streams) for streams in throughput.x],
            mark_x=(float(knee), "knee") if isinstance(knee, (int, float)) else None,
        )  # fmt: skip
    for title, y_label, name in (
        ("Time to first token by length", "seconds", "ttft-p50"),
        ("Time per output token by length", "seconds", "tpot-p50"),
        ("KV blocks by length", "blocks", "kv-blocks-peak"),
    ):
        if curve := _over(check, name, "length", "measured"):
            yield Chart(title=title, x_label="tokens of prompt and answer", y_label=y_label, curves=[curve])


def _over(check: CheckReport, name: str, parameter: str, label: str) -> Curve | None:
    """The figures of a name over one of their parameters: the mean, with a band from the least to the most."""
    from modelctl.page.charts import Curve

    found: dict[float, list[float]] = defaultdict(list)
    for item in check.measurements:
        at = item.parameters.get(parameter)
        counts = item.parameters.get("counts", True)  # a stage of a sweep may say that it does not
        if item.name == name and counts and _is_number(item, at):
            found[float(str(at))].append(float(str(item.value)))
    if not found:
        return None
    x = sorted(found)
    return Curve(
        label=label, x=x, y=[fmean(found[at]) for at in x],
        low=[min(found[at]) for at in x], high=[max(found[at]) for at in x],
    )  # fmt: skip


def _is_number(item: Measurement, at: object) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (item.value, at))
