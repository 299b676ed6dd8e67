from __future__ import annotations

import pytest
from scipy.stats import t

from modelctl.serving.knee import _T_975, Knee, knee, steps
from modelctl.serving.sweep import Stage


def stage(streams: int, repeat: int, throughput: float, *, failed: int = 0, late: str | None = None) -> Stage:
    return Stage(
        number=0,
        streams=streams,
        repeat=repeat,
        throughput=throughput,
        requests=10,
        failed=failed,
        first_failure=None,
        ttft_p50_s=0.1,
        ttft_p95_s=0.2,
        tpot_p50_s=0.01,
        tpot_p95_s=0.02,
        waiting_max=0.0,
        kv_usage_max=0.1,
        preemptions=0.0,
        achieved_streams=float(streams),
        client_lag_p99_s=0.001,
        client_fault=late,
        gave_up=None,
    )


def rounds(curve: dict[int, float], noise: tuple[float, ...] = (0.99, 1.0, 1.01)) -> list[Stage]:
    return [stage(n, number, rate * factor) for number, factor in enumerate(noise) for n, rate in curve.items()]


def test_the_table_is_students() -> None:
    assert pytest.approx([t.ppf(0.975, freedom) for freedom in range(1, 16)], abs=6e-4) == _T_975


def test_the_knee_is_where_doubling_stops_paying() -> None:
    found = knee(rounds({1: 100, 2: 195, 4: 370, 8: 390, 16: 392}))
    assert found == Knee(streams=4, throughput=pytest.approx(370), reached=True, certain=True)


def test_a_sweep_that_ends_before_the_knee_says_so() -> None:
    found = knee(rounds({1: 100, 2: 195, 4: 370}))
    assert found is not None
    assert (found.streams, found.reached) == (4, False)


def test_one_round_or_noise_is_not_certain() -> None:
    alone = knee(rounds({1: 100, 2: 104}, noise=(1.0,)))
    assert alone is not None
    assert not alone.certain
    stages = [stage(1, r, 100) for r in range(3)] + [stage(2, r, rate) for r, rate in enumerate((80, 104, 130))]
    noisy = knee(stages)
    assert noisy is not None
    assert (noisy.streams, noisy.certain) == (1, False)


def test_drift_between_rounds_cancels_out() -> None:
    stages = [stage(n, r, base * n) for r, base in enumerate((50, 100, 200)) for n in (1, 2)]
    (step,) = steps(stages)
    assert (step.gain, step.lower, step.upper) == pytest.approx((2.0, 2.0, 2.0))
    assert step.certain


def test_less_than_doubling_needs_less_gain() -> None:
    (step,) = steps(rounds({8: 100, 12: 106}))
    assert step.wanted == pytest.approx(1.1**0.58496, rel=1e-3)
    assert step.pays


def test_stages_with_failures_or_a_late_client_do_not_count() -> None:
    good = rounds({1: 100, 2: 195})
    assert knee([*good, stage(4, 0, 900, failed=1), stage(4, 1, 900, late="too late")]) == knee(good)
    assert knee([stage(1, 0, 100, failed=3)]) is None
