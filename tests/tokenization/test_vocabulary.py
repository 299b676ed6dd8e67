from __future__ import annotations

import pytest

from modelctl.model.strict_json import Json
from modelctl.tokenization.reading import MalformedError
from modelctl.tokenization.vocabulary import read_vocabulary


def test_a_unigram_list_gives_ids_by_place() -> None:
    vocabulary = read_vocabulary({"model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["▁a", -2.5]]}}, None, None)
    assert vocabulary.ids == {"<unk>": 0, "▁a": 1}
    assert vocabulary.texts[1] == "▁a"


def test_normalizers_and_splitters_are_unfolded() -> None:
    vocabulary = read_vocabulary(
        {
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel"}]},
            "truncation": {"max_length": 512},
            "model": {"type": "BPE", "vocab": {}},
        },
        None,
        None,
    )
    assert vocabulary.normalizers == ("NFC", "Lowercase")
    assert vocabulary.splitters == ("Split", "ByteLevel")
    assert vocabulary.byte_level
    assert vocabulary.truncation == 512


@pytest.mark.parametrize(
    "tokenizer",
    [
        {"model": []},
        {"model": {"vocab": 3}},
        {"model": {"vocab": {"a": "0"}}},
        {"model": {"vocab": {"a": True}}},
        {"model": {"vocab": [["a"]]}},
        {"added_tokens": {"id": 1}},
        {"added_tokens": [1]},
        {"added_tokens": [{"id": 1}]},
        {"added_tokens": [{"id": 1.5, "content": "x"}]},
        {"truncation": {"max_length": None}},
    ],
)
def test_nonsense_is_malformed(tokenizer: dict[str, Json]) -> None:
    with pytest.raises(MalformedError):
        read_vocabulary(tokenizer, None, None)


@pytest.mark.parametrize("key", ["-1", "x", "1.0", "٣", "9" * 20])
def test_an_added_token_needs_a_plain_number(key: str) -> None:
    with pytest.raises(MalformedError):
        read_vocabulary(None, {"added_tokens_decoder": {key: {"content": "x"}}}, None)
