from __future__ import annotations

import re
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError
from modelctl.page.charts import SERIES, Bars, Chart, Curve, Pairs, draw, require_charts
from modelctl.page.document import charts, document
from tests.support.browser import look

CHART = Chart(
    title="Rate <&>", x_label="streams", y_label="tokens/s", x_ticks=(1, 2, 4), mark_x=(2.0, "knee"),
    curves=[
        Curve(label="p50", x=[1, 2, 4], y=[10, 20, 21], low=[9, 18, 20], high=[11, 22, 23]),
        Curve(label="p95", x=[1, 2, 4], y=[12, 24, 25]),
    ],
)  # fmt: skip

pytestmark = pytest.mark.slow


def test_colours_are_the_pages_and_nothing_is_left_of_placeholders() -> None:
    svg = draw(CHART)
    assert "var(--series-1)" in svg
    assert "var(--series-2)" in svg
    assert "var(--ink)" in svg
    assert not re.search("|".join(SERIES), svg)
    assert "<svg " in svg[:5]
    assert "Rate &lt;&amp;&gt;" in svg
    assert draw(CHART) == svg


@pytest.mark.parametrize("width", [500, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_a_page_fits_its_window_in_dark_and_light_and_loads_nothing(tmp_path: Path, width: int, dark: bool) -> None:
    page = document("load", [charts([(CHART.title, draw(CHART)), ("again", draw(CHART))])])
    seen = look(page, tmp_path, width=width, dark=dark)
    assert seen.width <= seen.window
    assert all(0 < chart <= seen.window for chart in seen.charts)
    assert {"streams", "tokens/s", "knee", "p50"} <= set(seen.texts)
    assert seen.loaded == []
    assert (seen.paper == "rgb(18, 22, 28)") is dark
    assert seen.paper != seen.ink


def test_bars_and_pairs_name_what_they_show() -> None:
    bars = draw(Bars(title="b", y_label="seconds", names=["p50", "p99"], series=[("first", [1, 2]), ("all", [3, 4.5])]))
    for word in ("p50", "p99", "first", "all", "seconds", "4.5", "var(--series-2)"):
        assert word in bars
    few, many = (
        draw(Pairs(title="p", x_label="share", names=[f"s{n}" for n in range(count)],
                   before=("was", [0.5] * count), after=("is", [0.75] * count)))
        for count in (2, 40)
    )  # fmt: skip
    assert ">s39<" in many
    heights = [float(found[1]) for svg in (few, many) if (found := re.search(r'viewBox="0 0 [\d.]+ ([\d.]+)"', svg))]
    assert heights[1] > 3 * heights[0]


def test_without_matplotlib_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CannotDecideError) as caught:
        require_charts()
    assert "modelctl[charts]" in (caught.value.remedy or "")
