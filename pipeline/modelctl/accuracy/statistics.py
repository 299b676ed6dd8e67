"""Is the candidate no worse than the baseline? Paired statistics with three answers: it holds, it fails, nobody can
tell.

Both models answered the same `n` documents; `lost` are those that only the baseline got right, `gained` those that
only the candidate did. The drop is (lost - gained) / n. Only the standard library is needed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

Verdict = Literal["holds", "fails", "undecided"]

EXACT_BELOW = 5
"""With fewer discordant documents the score interval's normal approximation is not trusted."""
CHANCE_LEVEL = 0.001
CONSTANT_SHARE = 0.9
_BISECTIONS = 60


@dataclass(frozen=True, kw_only=True)
class PairedDrop:
    """A comparison and its verdict; drop, interval and limit are percentage points, positive when the candidate is
    worse."""

    n: int
    lost: int
    gained: int
    drop_points: float
    lower_points: float
    upper_points: float
    confidence: float
    limit_points: float
    method: Literal["tango-score", "clopper-pearson"]
    verdict: Verdict
    questions_to_decide: int | None
    """How many documents would decide with 80 % power if the observed shares are true; None when it is decided."""


def judge(*, n: int, lost: int, gained: int, limit_points: float, confidence: float = 0.95) -> PairedDrop:
    """The non-inferiority verdict.

    "holds": the upper bound of the two-sided interval is under the limit. "fails": the drop is at or over the limit
    and the lower bound is over zero. Anything else is "undecided". Raises `ValueError` for impossible counts.
    """
    if n < 1 or lost < 0 or gained < 0 or lost + gained > n:
        raise ValueError(f"impossible counts: n={n}, lost={lost}, gained={gained}")
    exact = lost + gained < EXACT_BELOW
    interval = exact_interval if exact else tango_interval
    lower, upper = interval(n=n, lost=lost, gained=gained, confidence=confidence)
    drop = (lost - gained) / n
    limit = limit_points / 100
    verdict: Verdict = "undecided"
    if upper < limit:
        verdict = "holds"
    elif drop >= limit and lower > 0:
        verdict = "fails"
    return PairedDrop(
        n=n,
        lost=lost,
        gained=gained,
        drop_points=100 * drop,
        lower_points=100 * lower,
        upper_points=100 * upper,
        confidence=confidence,
        limit_points=limit_points,
        method="clopper-pearson" if exact else "tango-score",
        verdict=verdict,
        questions_to_decide=_questions_to_decide(n, lost, gained, limit, confidence)
        if verdict == "undecided"
        else None,
    )


def tango_interval(*, n: int, lost: int, gained: int, confidence: float) -> tuple[float, float]:
    """Two-sided score interval of the paired difference (Tango, Statistics in Medicine 17, 1998, 891-908)."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)

    def score(difference: float) -> float:
        # The share of "gained" that is most likely when the true difference is the given one: a quadratic's
        # larger root.
        a = 2 * n
        b = -lost - gained + (2 * n - lost + gained) * difference
        c = -gained * difference * (1 - difference)
        share = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
        variance = n * (2 * share + difference * (1 - difference))
        deviation = lost - gained - n * difference
        if variance <= 0:
            return math.copysign(math.inf, deviation) if deviation else 0.0
        return deviation / math.sqrt(variance)

    estimate = (lost - gained) / n
    return (
        _bisect(lambda value: score(value) > z, -1.0, estimate),
        _bisect(lambda value: score(value) > -z, estimate, 1.0),
    )


def exact_interval(*, n: int, lost: int, gained: int, confidence: float) -> tuple[float, float]:
    """A conservative interval from Clopper-Pearson bounds: the drop is at most the share lost, at least minus the
    share gained."""
    return -clopper_pearson_upper(gained, n, confidence), clopper_pearson_upper(lost, n, confidence)


def clopper_pearson_upper(hits: int, n: int, confidence: float) -> float:
    """Upper end of the two-sided Clopper-Pearson interval of a share: the p at which `hits` or fewer have chance (1 -
    confidence) / 2."""
    if hits >= n:
        return 1.0
    tail = (1 - confidence) / 2
    return _bisect(lambda p: _binomial(range(hits + 1), n, p) > tail, hits / n, 1.0)


def binomial_tail(hits: int, n: int, p: float) -> float:
    """Chance of `hits` or more in `n` independent trials of chance `p`."""
    if hits <= 0 or p >= 1:
        return 1.0
    if p <= 0:
        return 0.0
    return _binomial(range(hits, n + 1), n, p)


def _binomial(hits: range, n: int, p: float) -> float:
    """Chance that the number of hits is in a range; `p` lies between 0 and 1."""
    if p <= 0:
        return float(0 in hits)
    log_n = math.lgamma(n + 1)
    terms = (
        log_n - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p) for k in hits
    )
    return min(1.0, math.fsum(math.exp(term) for term in terms))


def above_chance(*, correct: int, choices: Sequence[int]) -> bool:
    """Whether `correct` of the documents, with so many choices each, is more than guessing would give (one-sided, 0.1
    %).

    Documents with different numbers of choices are judged at their mean chance, whose binomial tail is the heavier
    one (Hoeffding).
    """
    chance = math.fsum(1 / number for number in choices) / len(choices)
    return binomial_tail(correct, len(choices), chance) < CHANCE_LEVEL


def constant_answer(chosen: Sequence[object], targets: Sequence[object]) -> object | None:
    """The one answer that a blind model gives nearly always although the right ones vary, or None."""
    answer, count = Counter(chosen).most_common(1)[0]
    is_right = sum(target == answer for target in targets) / len(targets)
    return answer if count / len(chosen) >= CONSTANT_SHARE > is_right else None


def questions_needed(*, difference: float, discordant: float, z: float, power: float = 0.8) -> int:
    """Documents for McNemar's test to see a `difference` between shares when `discordant` is the share of disagreement.

    Miettinen's formula (Biometrics 24, 1968): n = (z √d + z_power √(d - δ²))² / δ².
    """
    z_power = NormalDist().inv_cdf(power)
    spread = math.sqrt(max(discordant - difference**2, 0.0))
    return math.ceil((z * math.sqrt(discordant) + z_power * spread) ** 2 / difference**2)


def _questions_to_decide(n: int, lost: int, gained: int, limit: float, confidence: float) -> int:
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    drop = (lost - gained) / n
    # Nothing seen yet is not nothing there: half a document, as in the usual continuity corrections.
    discordant = max(lost + gained, 0.5) / n
    distance = drop if drop >= limit else limit - drop
    fewest = math.ceil(math.log((1 - confidence) / 2) / math.log1p(-limit))
    """With not one document lost, the exact upper bound is under the limit from here on."""
    return max(questions_needed(difference=distance, discordant=max(discordant, distance**2), z=z), fewest, n + 1)


def _bisect(is_below: Callable[[float], bool], low: float, high: float) -> float:
    """The point between `low` and `high` where `is_below` turns from true to false."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if is_below(middle):
            low = middle
        else:
            high = middle
    return (low + high) / 2
