from __future__ import annotations

import pytest

from modelctl.model.config import parse_config
from modelctl.model.strict_json import Json
from modelctl.tokenization.declared import check_declared
from modelctl.tokenization.lengths import check_lengths
from modelctl.tokenization.report import Ledger
from tests.tokenization.models import a_vocabulary, rules

CAUSAL: dict[str, Json] = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}


@pytest.mark.parametrize(
    ("stated", "truncation", "config", "expected", "warnings"),
    [
        (1e30, None, {**CAUSAL, "max_position_embeddings": 4096}, [], 0),
        (None, None, {**CAUSAL, "max_position_embeddings": 4096}, [], 0),
        (4096, None, {**CAUSAL, "max_position_embeddings": 4096}, [], 0),
        (131072, None, {**CAUSAL, "max_position_embeddings": 32768}, [], 1),
        (16384, None, {**CAUSAL, "max_position_embeddings": 131072}, [], 1),
        (512, None, {"model_type": "roberta", "max_position_embeddings": 514}, [], 0),
        (513, None, {"model_type": "bert", "max_position_embeddings": 512}, ["max-length"], 0),
        (512, 128, {"architectures": ["BertModel"], "max_position_embeddings": 512}, [], 1),
        (4096, 512, {**CAUSAL, "max_position_embeddings": 4096}, ["max-length"], 0),
        (4096, 8192, {**CAUSAL, "max_position_embeddings": 4096}, [], 1),
        (0, None, CAUSAL, ["max-length"], 0),
        (True, None, CAUSAL, ["max-length"], 0),
        ("4096", None, CAUSAL, ["max-length"], 0),
        (float("nan"), None, CAUSAL, ["max-length"], 0),
    ],
)
def test_lengths_that_disagree_are_found_or_warned_of(
    stated: Json, truncation: int | None, config: dict[str, Json], expected: list[str], warnings: int
) -> None:
    ledger = Ledger()
    check_lengths({"model_max_length": stated}, truncation, parse_config(config), ledger)
    assert rules(ledger) == expected
    assert len(ledger.warnings) == warnings


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("GPT2TokenizerFast", []),
        ("LlamaTokenizer", []),
        ("PreTrainedTokenizerFast", []),
        ("BertTokenizer", ["class"]),
        ("T5TokenizerFast", ["class"]),
        (None, []),
        (3, []),
    ],
)
def test_a_class_for_another_type_of_vocabulary_is_found(named: Json, expected: list[str]) -> None:
    ledger = Ledger()
    check_declared({"tokenizer_class": named}, a_vocabulary({"a": 0}), ledger)
    assert rules(ledger) == expected
