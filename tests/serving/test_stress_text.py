"""What `modelctl stress` prints, on terminals of several widths."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from modelctl.cli.stress_text import print_sweep
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.sweep import Stage, SweepPlan
from modelctl.serving.sweep_run import judged

ENGINE = Endpoint(base_url="http://h:1", model="m", max_model_len=None)
PLAN = SweepPlan(
    streams=(1, 2, 64), repeats=2, stage_s=3, ramp_s=1, prompt_tokens=64, answer_tokens=16, scrape_s=1,
    exact_answer=True, seed=0,
)  # fmt: skip
RATES = {1: 51.0, 2: 1020.0, 64: 1040.0}


def printed(width: int, *, late_s: float = 0.01) -> str:
    """A sweep whose second round was slow, by a client that was late then."""
    stages = tuple(
        Stage(
            number=number, streams=streams, repeat=repeat, requests=9, failed=0,
            throughput=RATES[streams] / (1 + repeat * late_s),
            first_failure=None, ttft_p50_s=0.12, ttft_p95_s=9.876, tpot_p50_s=0.02, tpot_p95_s=0.021, waiting_max=58,
            kv_usage_max=None, preemptions=0, achieved_streams=streams, client_lag_p99_s=repeat * late_s,
            client_fault="the load generator was late" if repeat * late_s > PLAN.max_client_lag_s else None,
            gave_up=None,
        )
        for number, streams, repeat in PLAN.stages()
    )  # fmt: skip
    out = StringIO()
    print_sweep(ENGINE, PLAN, judged(stages), Console(file=out, width=width, highlight=False))
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_every_figure_is_readable_at_every_width(width: int) -> None:
    text = printed(width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    (widest, *others) = sorted((line.count("█") for line in text.splitlines()), reverse=True)
    assert widest >= 5
    assert max(others) > 0.8 * widest
    for words in ("tokens/s", "1035", "2 *", "9876 ms", "21 ms", "58", "knee at 2 streams"):
        assert words in text


def test_rounds_that_do_not_count_are_in_no_mean() -> None:
    text = printed(120, late_s=1.0)
    assert "1040" in text
    assert "2 streams, round 2, does not count: the load generator was late" in text


def test_a_narrow_terminal_has_two_tables_and_the_worse_of_two_figures() -> None:
    assert "TTFT p50 / p95" in printed(80)
    assert [line.split()[:2] for line in printed(60).splitlines() if line.startswith("streams")] == [
        ["streams", "tokens/s"],
        ["streams", "TTFT"],
    ]
    assert "120 ms / " not in printed(60)
    assert " to " in printed(60)
    assert " to " not in printed(40)
