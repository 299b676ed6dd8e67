"""What the children draw: the documents of an evaluation and the windows of a calibration text."""

from __future__ import annotations

from collections import Counter

import pytest

from modelctl.accuracy.calibration import SHIPPED_TEXT
from modelctl.accuracy.quantize_worker import windows
from modelctl.accuracy.sampling import stratified

GROUPS = {"a": range(100), "b": range(100, 150), "c": range(150, 160)}


def test_each_subject_is_drawn_in_proportion() -> None:
    sample = stratified(GROUPS, limit=80, seed=0)
    assert {name: len(items) for name, items in sample.items()} == {"a": 50, "b": 25, "c": 5}
    assert all(set(items) <= set(GROUPS[name]) for name, items in sample.items())


def test_the_sample_is_not_the_first_ones_and_depends_on_the_seed_alone() -> None:
    first = stratified(GROUPS, limit=80, seed=0)
    assert first["a"] != list(range(50))
    assert first == stratified(dict(reversed(GROUPS.items())), limit=80, seed=0)
    assert first != stratified(GROUPS, limit=80, seed=1)


@pytest.mark.parametrize("limit", [1, 7, 79, 159, 160, 5000])
def test_exactly_the_limit_is_drawn_or_everything(limit: int) -> None:
    assert sum(map(len, stratified(GROUPS, limit=limit, seed=3).values())) == min(limit, 160)


def test_calibration_windows_cover_the_text_evenly() -> None:
    found = windows(range(1000), count=10, length=100, seed=5)
    assert Counter(token for window in found for token in window) == Counter(range(1000))


def test_any_number_of_windows_can_be_had_and_the_seed_moves_them() -> None:
    found = windows(range(1000), count=64, length=512, seed=0)
    assert len({tuple(window) for window in found}) == 64
    assert {len(window) for window in found} == {512}
    assert found != windows(range(1000), count=64, length=512, seed=1)


def test_a_tokenizer_that_makes_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no tokens"):
        windows([], count=1, length=10, seed=0)


def test_the_calibration_text_has_several_scripts_code_and_numbers() -> None:
    text = SHIPPED_TEXT.read_text(encoding="utf-8")
    assert len(text) > 20_000
    assert all(part in text for part in ("def ", "SELECT ", "的", "です", "Люди", "3.42"))
