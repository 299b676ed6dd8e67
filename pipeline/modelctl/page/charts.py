"""Charts as inline SVG, drawn by matplotlib, in colours that the page decides.

A chart is drawn in placeholder colours which become CSS variables, so one picture serves dark and light. Texts stay
texts: a reader may search and copy them. Needs the extra `charts`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modelctl.errors import CannotDecideError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _GRID = "#010203", "#010204"
SERIES = ("#010211", "#010212", "#010213", "#010214")
"""Placeholders of the colours of curves; the page's `--series-1` and so on."""
_VARIABLES: Mapping[str, str] = {_INK: "--ink", _GRID: "--grid"} | {
    colour: f"--series-{number}" for number, colour in enumerate(SERIES, start=1)
}
_INCHES = (6.4, 3.6)
"""Wide enough for a phone held upright to show readable labels, since the picture is scaled to its width."""
_INCHES_A_ROW, _INCHES_BESIDE = 0.24, 1.1


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One line of a chart, with an optional band around it."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dots: bool = True
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What a chart shows; `x_ticks` makes the axis logarithmic with just these marks."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    x_ticks: Sequence[int] | None = None
    log_y: bool = False
    mark_x: tuple[float, str] | None = None
    """A vertical line with its word."""


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Groups of bars side by side: for each name one value of each series."""

    title: str
    y_label: str
    names: Sequence[str]
    series: Sequence[tuple[str, Sequence[float]]]
    """(label, values), as many as there are names."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Two values for each name, one row below the other, joined by a line: what changed, and by how much."""

    title: str
    x_label: str
    names: Sequence[str]
    before: tuple[str, Sequence[float]]
    """(label, values)."""
    after: tuple[str, Sequence[float]]


def require_charts() -> None:
    """Raises `CannotDecideError` when matplotlib is not installed."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise CannotDecideError(
            "charts need matplotlib, which is not installed", remedy="pip install 'modelctl[charts]'"
        )


def draw(chart: Chart | Bars | Pairs) -> str:
    """The chart as an `<svg>` element. Raises `CannotDecideError` when matplotlib is not installed."""
    match chart:
        case Chart():
            return _svg(lambda axes: _fill(axes, chart), chart.title)
        case Bars():
            return _svg(lambda axes: _fill_bars(axes, chart), chart.title)
        case Pairs():
            height = _INCHES_BESIDE + _INCHES_A_ROW * len(chart.names)
            return _svg(lambda axes: _fill_pairs(axes, chart), chart.title, inches=(_INCHES[0], height))


def _fill(axes: Axes, chart: Chart) -> None:
    for number, curve in enumerate(chart.curves):
        colour = SERIES[number % len(SERIES)]
        axes.plot(
            curve.x, curve.y, color=colour, label=curve.label, linewidth=1.8, markersize=4,
            marker="o" if curve.dots else None, linestyle="--" if curve.dashed else "-",
        )  # fmt: skip
        if curve.low is not None and curve.high is not None:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    if chart.x_ticks is not None:
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(chart.x_ticks), [f"{tick:,}" for tick in chart.x_ticks])
        axes.minorticks_off()
    if chart.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if chart.mark_x is not None:
        place, word = chart.mark_x
        axes.axvline(place, color=_INK, linewidth=1, linestyle=":")
        axes.annotate(word, (place, 0.03), xycoords=("data", "axes fraction"), xytext=(4, 0),
                      textcoords="offset points", color=_INK)  # fmt: skip
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    if len(chart.curves) > 1:
        axes.legend(frameon=False, labelcolor=_INK)


def _fill_bars(axes: Axes, chart: Bars) -> None:
    places = range(len(chart.names))
    width = 0.8 / len(chart.series)
    for number, (label, values) in enumerate(chart.series):
        offset = (number - (len(chart.series) - 1) / 2) * width
        drawn = axes.bar([place + offset for place in places], values, width * 0.92, color=SERIES[number], label=label)
        axes.bar_label(drawn, [f"{value:.3g}" for value in values], padding=2, color=_INK, fontsize=9)
    axes.set_xticks(list(places), list(chart.names))
    axes.grid(visible=False, axis="x")
    axes.set_axisbelow(True)
    axes.margins(y=0.12)
    axes.set_ylabel(chart.y_label)
    if len(chart.series) > 1:
        axes.legend(frameon=False, labelcolor=_INK, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def _fill_pairs(axes: Axes, chart: Pairs) -> None:
    rows = range(len(chart.names))
    (before, old), (after, new) = chart.before, chart.after
    axes.hlines(rows, old, new, color=_INK, linewidth=1)
    axes.scatter(old, rows, color=SERIES[0], label=before, zorder=3, s=34)
    axes.scatter(new, rows, color=SERIES[1], label=after, zorder=4, s=16)  # smaller: seen where both are the same
    axes.set_yticks(list(rows), list(chart.names))
    axes.set_ylim(len(chart.names) - 0.5, -0.5)
    axes.set_xlabel(chart.x_label)
    axes.legend(frameon=False, labelcolor=_INK, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def _svg(fill: Callable[[Axes], None], title: str, *, inches: tuple[float, float] = _INCHES) -> str:
    require_charts()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none", "svg.hashsalt": title, "font.family": "sans-serif", "font.size": 11,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": _GRID,
        "axes.edgecolor": _INK, "axes.labelcolor": _INK, "xtick.color": _INK, "ytick.color": _INK,
        "text.color": _INK,
    }  # fmt: skip
    with rc_context(style):
        figure = Figure(figsize=inches, layout="constrained")
        fill(figure.subplots())
        figure.patch.set_alpha(0)
        for axes in figure.axes:
            axes.patch.set_alpha(0)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(out.getvalue(), title)


def _inline(document: str, title: str) -> str:
    """The element alone, sized by the page, named for screen readers, with variables instead of placeholders."""
    from html import escape

    element = document[document.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", element, count=1)
    element = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", element, count=1)
    for placeholder, variable in _VARIABLES.items():
        element = element.replace(placeholder, f"var({variable})")
    element = re.sub(r"font: (\d+(?:\.\d+)?)px [^;\"]*", r"font: \1px var(--font)", element)
    return element.replace("<svg ", f'<svg role="img" aria-label="{escape(title, quote=True)}" ', 1)
