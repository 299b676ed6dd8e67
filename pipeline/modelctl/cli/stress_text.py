"""How `modelctl stress` prints a sweep: a line with a bar for each number of streams, and the knee; as JSON too."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING

from modelctl.cli.stress_lengths import Lengths
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.knee import Knee, Step
from modelctl.serving.sweep import Stage, SweepPlan, telling
from modelctl.serving.sweep_run import SweepResult

if TYPE_CHECKING:
    from rich.console import Console

_BAR = -1
"""A column that is no cell but a bar as long as the throughput."""
_WIDE, _NARROW, _TINY = 110, 72, 52
"""Columns of a terminal from which on there is one table, under which of two figures only the worse is shown, and under
which no confidence is."""


def print_sweep(endpoint: Endpoint, plan: SweepPlan, result: SweepResult, out: Console) -> None:
    """The sweep for a person."""
    from rich.bar import Bar
    from rich.table import Table

    version = f" (vLLM {endpoint.version})" if endpoint.version else ""
    out.print(f"{endpoint.model} at {endpoint.base_url}{version}", style="bold")
    kept = "exact" if plan.exact_answer else "at most"
    out.print(
        f"{plan.prompt_tokens} tokens of prompt, {kept} {plan.answer_tokens} of answer; {plan.repeats} rounds of "
        f"{plan.stage_s:g} s\n",
        style="dim",
    )
    head, rows, marked = cells(plan, result)
    if marked is not None:
        rows[marked][0] += " *"
    rates = [_rate(result, streams) for streams in plan.streams]
    most = max(rates, default=0.0) or 1.0
    bars = [Bar(most, 0, rate, color="green" if row == marked else "cyan") for row, rate in enumerate(rates)]
    gap = 2 if out.width >= _TINY else 1
    for columns in _columns(out.width):
        table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
        shown = [[_short(row[number], out.width) for number in columns if number != _BAR] for row in (head, *rows)]
        taken = sum(max(map(len, column)) + gap for column in zip(*shown, strict=True))
        for number in columns:
            if number == _BAR:
                table.add_column("", width=max(6, min(24, out.width - taken)))
            else:
                table.add_column(_short(head[number], out.width), no_wrap=True)
        for index, row in enumerate(shown[1:]):
            line: list[str | Bar] = list(row)
            if _BAR in columns:
                line.insert(columns.index(_BAR), bars[index])
            table.add_row(*line, style="bold" if index == marked else None)
        out.print(table)
        out.print()
    out.print(describe_knee(result.knee))
    for stage in result.stages:
        if not stage.counts:
            where = f"{count_streams(stage.streams)}, round {stage.repeat + 1}"
            out.print(f"{where}, does not count: {stage.why_not}", style="yellow")


def _columns(width: int) -> tuple[tuple[int, ...], ...]:
    """Which cells stand beside one another, as one table or as two."""
    return ((0, 1, _BAR, 2, 3, 4, 5, 6),) if width >= _WIDE else ((0, 1, _BAR, 2), (0, 3, 4, 5, 6))


def _short(cell: str, width: int) -> str:
    """The cell, on a narrow terminal without the better of two percentiles (`TTFT p50 / p95` is `TTFT p95` there)."""
    if width < _TINY and cell.endswith(")"):
        return cell.partition(" (")[0]
    if width >= _NARROW or " / " not in cell:
        return cell
    first, _, worse = cell.rpartition(" / ")
    what, _, better = first.rpartition(" ")
    return f"{what} {worse}" if better.startswith("p") else worse


def cells(plan: SweepPlan, result: SweepResult) -> tuple[tuple[str, ...], list[list[str]], int | None]:
    """The table of a sweep: its head, a row for each number of streams, and which row is the knee's."""
    head = ("streams", "tokens/s", "gain", "TTFT p50 / p95", "TPOT p50 / p95", "waiting", "failed")
    gains = {step.above: step for step in result.steps}
    rows = []
    for streams in plan.streams:
        stages, every = telling(result.stages, streams), [each for each in result.stages if each.streams == streams]
        rows.append([
            str(streams), f"{_rate(result, streams):.0f}", _gain(gains.get(streams)),
            _pair(stages, lambda stage: (stage.ttft_p50_s, stage.ttft_p95_s)),
            _pair(stages, lambda stage: (stage.tpot_p50_s, stage.tpot_p95_s)),
            _most(every), str(sum(stage.failed for stage in every)),
        ])  # fmt: skip
    knee = result.knee
    return head, rows, plan.streams.index(knee.streams) if knee is not None and knee.reached else None


def count_streams(count: int) -> str:
    """`1 stream`, `2 streams`."""
    return f"{count:,} stream{'' if count == 1 else 's'}"


def describe_knee(found: Knee | None) -> str:
    """The knee in a sentence."""
    if found is None:
        return "no stage counts: nothing is known of this engine"
    rate = f"{found.throughput:.0f} tokens/s"
    if not found.reached:
        return f"no knee up to {count_streams(found.streams)} ({rate}): more streams still pay; raise --to"
    sure = "" if found.certain else "; not certain, more rounds would tell"
    return f"knee at {count_streams(found.streams)} ({rate}): more streams hardly pay{sure}"


def as_json(endpoint: Endpoint, plan: SweepPlan, result: SweepResult, lengths: Lengths | None = None) -> str:
    """The sweep for a program, and the lengths where some were tried."""
    return (
        json.dumps(
            {
                "engine": {"url": endpoint.base_url, "model": endpoint.model, "version": endpoint.version},
                "plan": asdict(plan),
                "stages": [{**asdict(stage), "counts": stage.counts} for stage in result.stages],
                "steps": [{**asdict(step), "pays": step.pays, "certain": step.certain} for step in result.steps],
                "knee": None if result.knee is None else asdict(result.knee),
                **({} if lengths is None else {"lengths": asdict(lengths)}),
            },
            indent=2,
        )
        + "\n"
    )


def _rate(result: SweepResult, streams: int) -> float:
    found = [stage.throughput for stage in telling(result.stages, streams)]
    return fmean(found) if found else 0.0


def _pair(stages: Sequence[Stage], values: Callable[[Stage], tuple[float | None, float | None]]) -> str:
    words = []
    for index in (0, 1):
        found = [number for stage in stages if (number := values(stage)[index]) is not None]
        words.append(_milliseconds(fmean(found)) if found else "-")
    return " / ".join(words)


def _milliseconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds * 1000:.0f} ms"


def _gain(step: Step | None) -> str:
    if step is None:
        return ""
    if step.lower is None or step.upper is None:
        return f"{step.gain:.2f}"
    return f"{step.gain:.2f} ({step.lower:.2f} to {step.upper:.2f})"


def _most(stages: Sequence[Stage]) -> str:
    found = [stage.waiting_max for stage in stages if stage.waiting_max is not None]
    return f"{max(found):.0f}" if found else "-"
