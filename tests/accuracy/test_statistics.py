"""The verdict against published and tabulated values, against scipy, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

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
    from scipy import stats  # a second of imports: not for every worker that only collects

    wanted = 1.0 if hits == n else stats.beta.ppf(0.975, hits + 1, n - hits)
    assert clopper_pearson_upper(hits, n, 0.95) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(("hits", "n", "p"), [(0, 10, 0.3), (7, 10, 0.3), (410, 1400, 0.25), (3600, 14042, 0.25)])
def test_the_binomial_tail_is_scipys(hits: int, n: int, p: float) -> None:
    from scipy import stats

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


def reference_interval(n: int, lost: int, gained: int, confidence: float) -> tuple[float, float]:
    """Tango's score interval by numerical search: the likelihood is maximised under a fixed difference, and the score
    statistic is brought to the normal quantile."""
    from scipy import optimize, stats

    z = stats.norm.ppf((1 + confidence) / 2)

    def score(difference: float) -> float:
        def unlikelihood(share: float) -> float:
            shares = (share + difference, share, 1 - 2 * share - difference)
            counts = (lost, gained, n - lost - gained)
            return -sum(count * math.log(p) for count, p in zip(counts, shares, strict=True) if count)

        low, high = max(0.0, -difference) + 1e-12, (1 - difference) / 2 - 1e-12
        bounds, accuracy = (low, high), {"xatol": 1e-13}
        share = optimize.minimize_scalar(unlikelihood, bounds=bounds, method="bounded", options=accuracy).x
        variance = n * (2 * share + difference - difference**2)
        return float((lost - gained - n * difference) / math.sqrt(variance))

    estimate = (lost - gained) / n
    return (
        optimize.brentq(lambda value: score(value) - z, -0.3, estimate),
        optimize.brentq(lambda value: score(value) + z, estimate, 0.3),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("n", "lost", "gained"), [(200, 24, 6), (600, 14, 9), (1400, 40, 40), (1400, 21, 3)])
def test_the_score_interval_is_that_of_a_numerical_search(n: int, lost: int, gained: int) -> None:
    found = tango_interval(n=n, lost=lost, gained=gained, confidence=0.95)
    assert found == pytest.approx(reference_interval(n, lost, gained, 0.95), abs=1e-5)


def test_what_was_measured_on_a_real_model_has_the_interval_that_was_noted() -> None:
    result = judge(n=200, lost=24, gained=6, limit_points=1.5)
    assert (result.lower_points, result.upper_points) == pytest.approx((4.0, 14.5), abs=0.25)


RUNS = 4000


def simulated(n: int, *, drop: float, discordant: float) -> tuple[dict[str, float], float]:
    """How often each verdict is reached, and how often the interval holds the truth, in `RUNS` evaluations of models
    whose true drop and share of disagreement are known."""
    lost, gained = (discordant + drop) / 2, (discordant - drop) / 2
    draws = np.random.default_rng(n).multinomial(n, [lost, gained, 1 - discordant], size=RUNS)[:, :2]
    pairs, times = np.unique(draws, axis=0, return_counts=True)
    reached = {"holds": 0.0, "fails": 0.0, "undecided": 0.0}
    covered = 0.0
    for (one, other), count in zip(pairs.tolist(), times.tolist(), strict=True):
        result = judge(n=n, lost=one, gained=other, limit_points=1.5)
        reached[result.verdict] += count / RUNS
        covered += count / RUNS * (result.lower_points <= 100 * drop <= result.upper_points)
    return reached, covered


def at_most(rate: float) -> float:
    """The upper end of what `RUNS` draws show of a true rate: three standard deviations of the binomial."""
    return rate + 3 * math.sqrt(rate * (1 - rate) / RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 600, 1400])
@pytest.mark.parametrize("discordant", [0.02, 0.05, 0.1])
def test_each_wrong_verdict_is_as_rare_as_the_confidence_promises(n: int, discordant: float) -> None:
    reached, covered = simulated(n, drop=0.015, discordant=discordant)
    assert reached["holds"] <= at_most(0.025), "a model that lost exactly the limit passed"
    assert covered >= 1 - at_most(0.05)
    reached, covered = simulated(n, drop=0, discordant=discordant)
    assert reached["fails"] <= at_most(0.025), "a model that lost nothing was refused"
    assert covered >= 1 - at_most(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "caught"), [(200, 0.75), (600, 0.99), (1400, 0.999)])
def test_a_model_that_lost_six_points_is_refused_and_never_passes(n: int, caught: float) -> None:
    reached, _ = simulated(n, drop=0.06, discordant=0.1)
    assert reached["fails"] >= caught
    assert reached["holds"] == 0


@pytest.mark.slow
def test_the_number_of_questions_that_is_named_decides_in_four_of_five_cases() -> None:
    few = judge(n=200, lost=5, gained=5, limit_points=1.5)
    assert few.questions_to_decide is not None
    reached, _ = simulated(few.questions_to_decide, drop=0, discordant=0.05)
    assert 1 - at_most(0.2) <= reached["holds"] <= at_most(0.85)


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
