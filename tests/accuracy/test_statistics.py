"""The verdict against published and tabulated values, against scipy, and by simulation."""

from __future__ import annotations

import random

import pytest
from scipy import stats

from modelctl.accuracy.statistics import (
    above_chance,
    binomial_tail,
    clopper_pearson_upper,
    constant_answer,
    judge,
    questions_needed,
    tango_interval,
)

ONE_SIDED_95 = 1.6448536269514722


@pytest.mark.parametrize(
    ("discordant", "power", "wanted"),
    [(0.03, 0.8, 823), (0.03, 0.9, 1139), (0.05, 0.8, 1372), (0.05, 0.9, 1900), (0.10, 0.8, 2746), (0.10, 0.9, 3803)],
)
def test_the_number_of_questions_is_that_of_the_mcnemar_table(discordant: float, power: float, wanted: int) -> None:
    assert questions_needed(difference=0.015, discordant=discordant, z=ONE_SIDED_95, power=power) == wanted


def test_the_interval_of_the_approval_survey_is_the_published_one() -> None:
    # Agresti, Categorical Data Analysis: 1600 people asked twice, 150 and 86 changed their minds; 0.021 to 0.059.
    lower, upper = tango_interval(n=1600, lost=150, gained=86, confidence=0.95)
    assert lower == pytest.approx(0.021, abs=0.001)
    assert upper == pytest.approx(0.059, abs=0.001)


def test_the_interval_mirrors_when_the_models_are_exchanged() -> None:
    lower, upper = tango_interval(n=700, lost=31, gained=12, confidence=0.95)
    other = tango_interval(n=700, lost=12, gained=31, confidence=0.95)
    assert (-upper, -lower) == pytest.approx(other, abs=1e-9)


def test_without_one_side_the_interval_still_has_width() -> None:
    lower, upper = tango_interval(n=1000, lost=8, gained=0, confidence=0.95)
    assert 0 < lower < 0.008 < upper < 0.02


@pytest.mark.parametrize(("hits", "n"), [(0, 200), (1, 44), (4, 1000), (30, 31), (31, 31)])
def test_the_exact_bound_is_clopper_pearson(hits: int, n: int) -> None:
    wanted = 1.0 if hits == n else stats.beta.ppf(0.975, hits + 1, n - hits)
    assert clopper_pearson_upper(hits, n, 0.95) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(("hits", "n", "p"), [(0, 10, 0.3), (7, 10, 0.3), (410, 1400, 0.25), (3600, 14042, 0.25)])
def test_the_binomial_tail_is_scipys(hits: int, n: int, p: float) -> None:
    assert binomial_tail(hits, n, p) == pytest.approx(stats.binom.sf(hits - 1, n, p), rel=1e-8)


def test_a_small_loss_on_many_questions_holds() -> None:
    result = judge(n=1145, lost=17, gained=15, limit_points=1.5)
    assert (result.verdict, result.method, result.questions_to_decide) == ("holds", "tango-score", None)
    assert result.upper_points < 1.5


def test_a_large_loss_fails() -> None:
    result = judge(n=200, lost=24, gained=6, limit_points=1.5)
    assert result.verdict == "fails"
    assert result.drop_points == 9.0
    assert result.lower_points > 1.5


def test_a_drop_below_its_standard_error_is_undecided_and_says_how_many_questions_would_decide() -> None:
    result = judge(n=100, lost=6, gained=4, limit_points=1.5)
    assert result.verdict == "undecided"
    assert result.questions_to_decide is not None
    assert result.questions_to_decide > 1000


def test_no_difference_on_few_questions_is_undecided() -> None:
    result = judge(n=200, lost=0, gained=0, limit_points=1.5)
    assert (result.verdict, result.method, result.questions_to_decide) == ("undecided", "clopper-pearson", 245)
    assert judge(n=245, lost=0, gained=0, limit_points=1.5).verdict == "holds"


def test_a_gain_never_fails() -> None:
    assert judge(n=400, lost=2, gained=60, limit_points=1.5).verdict == "holds"


@pytest.mark.parametrize(("n", "lost", "gained"), [(0, 0, 0), (10, 6, 5), (10, -1, 0)])
def test_impossible_counts_are_refused(n: int, lost: int, gained: int) -> None:
    with pytest.raises(ValueError, match="impossible counts"):
        judge(n=n, lost=lost, gained=gained, limit_points=1.5)


def test_a_model_that_lost_exactly_the_limit_is_admitted_at_most_as_often_as_the_interval_says() -> None:
    rng = random.Random(1)
    n, runs, held, covered = 1040, 400, 0, 0
    for _ in range(runs):
        draws = [rng.random() for _ in range(n)]
        lost = sum(draw < 0.035 for draw in draws)
        gained = sum(0.035 <= draw < 0.055 for draw in draws)
        result = judge(n=n, lost=lost, gained=gained, limit_points=1.5)
        held += result.verdict == "holds"
        covered += result.lower_points <= 1.5 <= result.upper_points
    assert held / runs < 0.05  # 2.5 % in the long run
    assert 0.92 < covered / runs < 0.98


def test_guessing_is_not_above_chance() -> None:
    assert not above_chance(correct=285, choices=[4] * 1040)
    assert above_chance(correct=800, choices=[4] * 1040)
    assert not above_chance(correct=52, choices=[2] * 50 + [4] * 90)


def test_a_blind_model_is_recognised_by_its_constant_answer() -> None:
    targets = [0, 1, 2, 3] * 50
    assert constant_answer([0] * 200, targets) == 0
    assert constant_answer([0] * 185 + [1] * 15, targets) == 0
    assert constant_answer(targets, targets) is None
    assert constant_answer([0] * 200, [0] * 200) is None
