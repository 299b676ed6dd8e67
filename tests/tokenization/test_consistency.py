from __future__ import annotations

from modelctl.tokenization.consistency import check_bytes, check_clashes, check_range
from modelctl.tokenization.copies import check_copies
from modelctl.tokenization.report import Ledger
from modelctl.tokenization.vocabulary import byte_letters, read_vocabulary
from tests.tokenization.models import a_vocabulary, rules

BYTE_LEVEL = {"pre_tokenizer": {"type": "ByteLevel"}, "decoder": {"type": "ByteLevel"}}


def test_two_pieces_with_one_id_clash() -> None:
    ledger = Ledger()
    check_clashes(a_vocabulary({"a": 0, "b": 1, "c": 1}), ledger)
    assert rules(ledger) == ["id-clash"]
    assert "'b'" in ledger.problems[0].message
    assert "'c'" in ledger.problems[0].message


def test_files_that_give_a_token_different_ids_clash() -> None:
    vocabulary = read_vocabulary(
        {"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 1, "content": "<x>", "special": True}]},
        {"added_tokens_decoder": {"2": {"content": "<x>"}}},
        {"<x>": 1},
    )
    ledger = Ledger()
    check_clashes(vocabulary, ledger)
    assert rules(ledger) == ["id-clash"]
    assert "1 in tokenizer.json and 2 in tokenizer_config.json" in ledger.problems[0].message


def test_an_added_token_that_repeats_its_piece_does_not_clash() -> None:
    ledger = Ledger()
    check_clashes(a_vocabulary({"<x>": 0}, added_tokens=[{"id": 0, "content": "<x>"}]), ledger)
    assert rules(ledger) == []


def test_an_id_at_the_number_of_rows_is_outside_and_padding_rows_are_fine() -> None:
    vocabulary = a_vocabulary({"a": 0, "b": 9})
    for rows, expected in ((9, ["id-range"]), (10, []), (128, [])):
        ledger = Ledger()
        check_range(vocabulary, rows, "the table has rows", ledger)
        assert rules(ledger) == expected


def test_a_negative_id_is_outside_even_when_the_rows_are_not_known() -> None:
    ledger = Ledger()
    check_range(a_vocabulary({"a": -1}), None, "", ledger)
    assert rules(ledger) == ["id-range"]


def test_a_missing_byte_of_everyday_text_is_a_finding_and_a_rare_one_a_warning() -> None:
    letters = byte_letters()
    everything = {letter: number for number, letter in enumerate(letters)}
    for missing, expected, warnings in ((0xE4, ["missing-bytes"], 0), (0x04, [], 1), (0xFF, [], 0)):
        ledger = Ledger()
        kept = {letter: number for letter, number in everything.items() if letter != letters[missing]}
        check_bytes(a_vocabulary(kept, **BYTE_LEVEL), ledger)
        assert rules(ledger) == expected
        assert len(ledger.warnings) == warnings


def test_bytes_are_asked_of_vocabularies_on_bytes_only() -> None:
    assert a_vocabulary({"a": 0}).missing_bytes == ()
    assert len(a_vocabulary({"a": 0}, **BYTE_LEVEL).missing_bytes) == 255
    fallback = read_vocabulary({"model": {"vocab": {"<0x41>": 0}, "byte_fallback": True}}, None, None)
    assert len(fallback.missing_bytes) == 255


def test_the_byte_letters_are_those_of_the_library() -> None:
    from tokenizers import pre_tokenizers

    assert sorted(byte_letters()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    assert byte_letters()[ord(" ")] == "Ġ"
    assert byte_letters()[ord("\n")] == "Ċ"


def test_older_copies_must_say_the_same() -> None:
    tokenizer = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}}
    vocabulary = read_vocabulary(tokenizer, None, None)
    for copy, merges, expected in (
        ({"a": 0, "b": 1, "ab": 2}, "#version: 0.2\na b\n", []),
        ({"a": 0, "b": 1, "ab": 2}, None, []),
        ({"a": 1, "b": 0, "ab": 2}, None, ["variants-differ"]),
        ({"a": 0, "b": 1}, None, ["variants-differ"]),
        ({"a": 0, "b": 1, "ab": 2}, "b a\n", ["variants-differ"]),
    ):
        ledger = Ledger()
        check_copies(vocabulary, copy, merges, tokenizer, ledger)
        assert rules(ledger) == expected
