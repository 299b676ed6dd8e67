from __future__ import annotations

import pytest

from modelctl.model.strict_json import Json
from modelctl.tokenization.reading import MalformedError
from modelctl.tokenization.report import Ledger
from modelctl.tokenization.special import check_agreement, check_ids, check_known, read_special_tokens
from tests.tokenization.models import a_vocabulary, rules, some_special_tokens

WORDS = a_vocabulary({"<s>": 0, "</s>": 1, "<end>": 2, "a": 3})
ROLES = ("bos", "eos", "pad")


@pytest.mark.parametrize(
    ("config", "generation"),
    [
        ({"eos_token_id": 1}, None),
        ({"eos_token_id": 2}, {"eos_token_id": [2, 1]}),
        ({}, {}),
        ({"eos_token_id": None, "pad_token_id": -1}, {"eos_token_id": 1}),
    ],
)
def test_an_end_token_among_the_stated_ones_agrees(config: dict[str, Json], generation: dict[str, Json] | None) -> None:
    ledger = Ledger()
    special = some_special_tokens(config=config, generation=generation, eos="</s>")
    check_agreement(special, WORDS, ROLES, ledger)
    check_ids(special, WORDS, 4, ledger)
    assert rules(ledger) == []
    assert ledger.warnings == []


def test_two_files_that_name_different_end_tokens_are_warned_of_where_the_tokenizer_agrees_with_one() -> None:
    ledger = Ledger()
    special = some_special_tokens(config={"eos_token_id": 1}, generation={"eos_token_id": [2, 3]}, eos="</s>")
    check_agreement(special, WORDS, ROLES, ledger)
    assert rules(ledger) == []
    (warning,) = ledger.warnings
    assert warning == (
        "eos_token_id: config.json says 1 ('</s>'); generation_config.json says 2 ('<end>'), 3 ('a'): programs differ "
        "in which they read"
    )


@pytest.mark.parametrize("role", ROLES)
def test_a_token_that_no_file_names_disagrees(role: str) -> None:
    special = some_special_tokens(
        config={f"{role}_token_id": 2}, generation={f"{role}_token_id": [2, 3]}, **{role: "</s>"}
    )
    ledger = Ledger()
    check_agreement(special, WORDS, ROLES, ledger)
    assert rules(ledger) == [f"{role}-token"]
    assert "1 ('</s>')" in ledger.problems[0].message
    assert "generation_config.json says 2 ('<end>'), 3 ('a')" in ledger.problems[0].message
    ledger = Ledger()
    check_agreement(special, WORDS, (), ledger)
    assert rules(ledger) == []


def test_a_special_token_outside_the_vocabulary_is_found_wherever_it_is_named() -> None:
    special = read_special_tokens(
        {"eos_token": {"content": "</s>"}, "additional_special_tokens": ["<tool>"]}, {"pad_token": "[PAD]"}, {}
    )
    ledger = Ledger()
    check_known(special, WORDS, ledger)
    assert rules(ledger) == ["special-missing"]
    assert "'<tool>'" in ledger.problems[0].message
    assert "pad_token '[PAD]'" in ledger.problems[0].message
    assert "</s>" not in ledger.problems[0].message


def test_an_id_without_a_token_is_found_and_one_past_the_embedding_says_so() -> None:
    ledger = Ledger()
    check_ids(some_special_tokens(config={"eos_token_id": [1, 4]}, generation={"pad_token_id": 900}), WORDS, 8, ledger)
    assert rules(ledger) == ["special-id", "special-id"]
    assert "embedding" not in ledger.problems[0].message
    assert "the embedding ends at 7" in ledger.problems[1].message


def test_generation_config_is_what_ends_generation() -> None:
    assert some_special_tokens(config={"eos_token_id": 1}, generation={"eos_token_id": [2, 3]}).end_ids() == (2, 3)
    assert some_special_tokens(config={"eos_token_id": 1}, generation={}).end_ids() == (1,)
    assert some_special_tokens().end_ids() == ()


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        ({"eos_token": 3}, {}),
        ({"eos_token": {}}, {}),
        ({"additional_special_tokens": "x"}, {}),
        ({}, {"eos_token_id": "2"}),
        ({}, {"eos_token_id": [True]}),
        ({}, {"pad_token_id": 0.5}),
    ],
)
def test_nonsense_is_malformed(settings: dict[str, Json], config: dict[str, Json]) -> None:
    with pytest.raises(MalformedError):
        read_special_tokens(settings, None, {"config.json": config})
