from __future__ import annotations

import pytest

from modelctl.serving.answers import percentile, repeats_one_token


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("!" * 32, 32),
        (" the" * 16, 16),
        (" the" * 16 + " th", 17),
        ("So it goes on and on. " + "!" * 60, 66),
        ("", 16),
        ("\n" * 16, 16),
        ("你" * 20, 20),
    ],
)
def test_one_token_over_and_over_is_noticed(text: str, tokens: int) -> None:
    assert repeats_one_token(text, tokens)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (" The king lost a ball." * 6, 36),
        (" mountain sea stone" * 10, 30),
        ("A plain sentence about a river and a mill.", 10),
        ("!!!!", 4),
        ("", 1),
        ("Yes.", 32),
    ],
)
def test_sentences_that_come_again_and_short_answers_are_not(text: str, tokens: int) -> None:
    assert not repeats_one_token(text, tokens)


def test_percentiles_are_nearest_rank() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, share) for share in (0.0, 0.5, 0.95, 0.99, 1.0)] == [1, 50, 95, 99, 100]
    assert percentile([7.0], 0.99) == 7.0
    assert percentile([], 0.5) is None
