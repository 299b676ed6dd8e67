"""The page of a sweep: throughput with the knee, latencies, the queue and the KV cache over time, and distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from modelctl.cli.stress_lengths import HEAD, Lengths
from modelctl.cli.stress_lengths import cells as length_cells
from modelctl.cli.stress_text import cells, count_streams, describe_knee
from modelctl.page.charts import Chart, Curve, draw
from modelctl.page.document import charts, document, section, table, text
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.sweep import Stage, SweepPlan, telling
from modelctl.serving.sweep_record import SweepRecord
from modelctl.serving.sweep_run import SweepResult

_SHOWN_STAGES = 3
"""Stages whose distributions and series are drawn: fewest, knee, most streams."""


def stress_page(
    endpoint: Endpoint, plan: SweepPlan, result: SweepResult, record: SweepRecord, lengths: Lengths | None = None
) -> str:
    """The whole page. Raises `CannotDecideError` when matplotlib is not installed."""
    version = f", vLLM {endpoint.version}" if endpoint.version else ""
    sizes = f"{plan.prompt_tokens} tokens of prompt and {plan.answer_tokens} of answer"
    title = f"{endpoint.model} under load"
    drawn = [(chart.title, draw(chart)) for chart in _charts(plan, result, record)]
    head, rows, marked = cells(plan, result)
    kind = "unsure" if result.knee is None or not result.knee.certain else "good"
    parts = [
        text(title, tag="h1"),
        text(f"{endpoint.base_url}{version}; {sizes}; {plan.repeats} rounds of {plan.stage_s:g} s", kind="quiet"),
        text(describe_knee(result.knee), kind=f"headline {kind}"),
        charts(drawn),
        text("Lines are means of the rounds, bands reach from the least to the most of them.", kind="quiet"),
        section("Figures", table(head, rows, marked=marked)),
    ]
    if lengths is not None:
        parts.append(charts([(chart.title, draw(chart)) for chart in _over_length(lengths)]))
        lines = "".join(text(trouble, kind="unsure") for trouble in lengths.troubles)
        parts.append(section("One request at a time, longer and longer", table(HEAD, length_cells(lengths)) + lines))
    left_out = [stage for stage in result.stages if not stage.counts]
    if left_out:
        lines = "".join(
            text(f"{count_streams(stage.streams)}, round {stage.repeat + 1}: {stage.why_not}") for stage in left_out
        )
        parts.append(section("Stages that do not count", lines))
    return document(title, parts)


def _charts(plan: SweepPlan, result: SweepResult, record: SweepRecord) -> Iterator[Chart]:
    levels = [streams for streams in plan.streams if any(stage.streams == streams for stage in result.stages)]
    knee = (float(result.knee.streams), "knee") if result.knee is not None and result.knee.reached else None
    yield Chart(
        title="Throughput", x_label="streams", y_label="written tokens/s", x_ticks=levels, mark_x=knee,
        curves=[_over(levels, result.stages, "throughput", _throughput)],
    )  # fmt: skip
    yield Chart(
        title="Time to first token", x_label="streams", y_label="seconds", x_ticks=levels, mark_x=knee,
        curves=[
            _over(levels, result.stages, "p50", lambda stage: stage.ttft_p50_s),
            _over(levels, result.stages, "p95", lambda stage: stage.ttft_p95_s),
        ],
    )  # fmt: skip
    yield Chart(
        title="Time per output token", x_label="streams", y_label="milliseconds", x_ticks=levels, mark_x=knee,
        curves=[
            _over(levels, result.stages, "p50", lambda stage: _thousand(stage.tpot_p50_s)),
            _over(levels, result.stages, "p95", lambda stage: _thousand(stage.tpot_p95_s)),
        ],
    )  # fmt: skip
    shown = _shown(result)
    yield Chart(
        title="Latency of whole requests", x_label="seconds", y_label="share answered by then",
        curves=[_distribution(stage, record) for stage in shown],
    )  # fmt: skip
    for title, y_label, key in (
        ("Waiting requests over time", "requests", "waiting"),
        ("KV cache in use over time", "share of the pool", "kv_usage"),
    ):
        curves = [curve for stage in shown if (curve := _series(stage, record, key)) is not None]
        if curves:
            yield Chart(title=title, x_label="seconds since the stage began", y_label=y_label, curves=curves)


def _over_length(lengths: Lengths) -> Iterator[Chart]:
    """KV use against what was computed, and how latency grows; what the engine does not say is left out."""
    size = next((row.block_size for row in lengths.rows if row.block_size is not None), None)
    used = [(row.length, row.kv_blocks) for row in lengths.rows if row.kv_blocks is not None]
    computed = [(row.length, row.kv_blocks_computed) for row in lengths.rows if row.kv_blocks_computed is not None]
    if used:
        curves = [Curve(label="measured", x=[x for x, _ in used], y=[y for _, y in used])]
        if computed:
            curves.append(
                Curve(
                    label="computed", x=[x for x, _ in computed], y=[float(y) for _, y in computed], dots=False,
                    dashed=True,
                )
            )  # fmt: skip
        yield Chart(
            title="KV cache over length", x_label="tokens of prompt and answer",
            y_label="blocks" if size is None else f"blocks of {size} tokens", curves=curves,
        )  # fmt: skip
    for title, y_label, values in (
        ("Time to first token over length", "seconds", [(row.length, row.ttft_s) for row in lengths.rows]),
        (
            "Time per output token over length", "milliseconds",
            [(row.length, _thousand(row.tpot_s)) for row in lengths.rows],
        ),
    ):  # fmt: skip
        known = [(x, y) for x, y in values if y is not None]
        if known:
            curve = Curve(label="median", x=[x for x, _ in known], y=[y for _, y in known])
            yield Chart(title=title, x_label="tokens of prompt and answer", y_label=y_label, curves=[curve])


def _over(levels: Sequence[int], stages: Sequence[Stage], label: str, value: Callable[[Stage], float | None]) -> Curve:
    """Mean over the rounds that count at each number of streams, with the least and the most as a band."""
    x: list[float] = []
    found: list[list[float]] = []
    for streams in levels:
        values = [number for stage in telling(stages, streams) if (number := value(stage)) is not None]
        if values:
            x.append(streams)
            found.append(values)
    return Curve(
        label=label, x=x, y=[fmean(values) for values in found],
        low=[min(values) for values in found], high=[max(values) for values in found],
    )  # fmt: skip


def _throughput(stage: Stage) -> float:
    return stage.throughput


def _thousand(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _shown(result: SweepResult) -> list[Stage]:
    """The last round's stages with the fewest streams, at the knee, and with the most."""
    last = {stage.streams: stage for stage in result.stages}
    wanted = [min(last, default=0), result.knee.streams if result.knee else 0, max(last, default=0)]
    return [last[streams] for streams in dict.fromkeys(wanted) if streams in last][:_SHOWN_STAGES]


def _distribution(stage: Stage, record: SweepRecord) -> Curve:
    latencies = sorted(
        float(str(row["done_s"])) - float(str(row["intended_s"]))
        for row in record.requests(stage)
        if row.get("failure") is None
    )
    count = len(latencies)
    shares = [(number + 1) / count for number in range(count)]
    return Curve(label=count_streams(stage.streams), x=[0.0, *latencies], y=[0.0, *shares], dots=False)


def _series(stage: Stage, record: SweepRecord, key: str) -> Curve | None:
    readings = [row for row in record.readings(stage) if row.get(key) is not None]
    if not readings:
        return None
    begin = float(str(readings[0]["at_s"]))
    return Curve(
        label=count_streams(stage.streams), dots=False,
        x=[float(str(row["at_s"])) - begin for row in readings], y=[float(str(row[key])) for row in readings],
    )  # fmt: skip
