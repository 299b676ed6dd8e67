"""The shipped questions: what the generator makes, and fit to be asked."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from modelctl.accuracy.tasks import build

UPDATE = "python -m modelctl.accuracy.tasks.build"


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    return [json.loads(line) for line in build.OUTPUT.read_text(encoding="utf-8").splitlines()]


def test_the_committed_questions_are_what_the_tables_make() -> None:
    assert build.OUTPUT.read_text(encoding="utf-8") == build.render(), f"make them anew: {UPDATE}"


def test_there_are_enough_for_a_verdict(questions: list[dict[str, Any]]) -> None:
    assert len(questions) >= 1000
    assert len({question["subject"] for question in questions}) >= 20


def test_each_has_four_different_choices_and_one_place_for_the_right_one(questions: list[dict[str, Any]]) -> None:
    for question in questions:
        choices = question["choices"]
        assert isinstance(choices, list)
        assert len(set(choices)) == 4, question
        assert question["answer"] in range(4), question


def test_no_question_is_asked_twice(questions: list[dict[str, Any]]) -> None:
    asked = Counter(question["question"] for question in questions)
    assert [text for text, times in asked.items() if times > 1] == []


def test_the_right_place_is_spread_evenly(questions: list[dict[str, Any]]) -> None:
    places = Counter(question["answer"] for question in questions)
    assert min(places.values()) > len(questions) / 4 * 0.8


def test_there_is_arithmetic_and_its_keys_are_what_a_calculation_gives(questions: list[dict[str, Any]]) -> None:
    sums = [question for question in questions if question["subject"] == "sums"]
    assert len(sums) >= 100
    for question in sums:
        asked = re.fullmatch(r"1 \+ 1 = 2, 5 \+ 3 = 8, (\d+) \+ (\d+) =", question["question"])
        assert asked, question
        assert [choice for choice in question["choices"] if int(choice) == int(asked[1]) + int(asked[2])] == [
            question["choices"][question["answer"]]
        ]
    for question in questions:
        if question["subject"] in ("counting", "steps"):
            *shown, last, after = [int(number) for number in question["question"].rstrip(",").split(", ")]
            assert len(shown) == 2
            assert question["choices"][question["answer"]] == str(after + after - last), question


def test_a_line_that_is_no_fact_is_named() -> None:
    with pytest.raises(ValueError, match=r"facts\.txt:3"):
        build.read_subjects("[x]\nforward = {left}\nnonsense\n")
