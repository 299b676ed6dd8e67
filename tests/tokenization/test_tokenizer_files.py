"""What a model's tokenizer files say, and what is written down of those that say nothing."""

from __future__ import annotations

import json
from pathlib import Path

from modelctl.model.strict_json import Json
from modelctl.tokenization.report import Ledger
from modelctl.tokenization.tokenizer_files import model_config, read_documents, vocabulary_and_special
from tests.tokenization.models import rules

TOKENIZER: dict[str, Json] = {"model": {"type": "BPE", "vocab": {"a": 0, "</s>": 1}, "merges": []}}


def written(folder: Path, files: dict[str, object]) -> list[str]:
    for name, value in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return list(files)


def test_what_can_be_read_is_read_and_the_rest_is_named(tmp_path: Path) -> None:
    names = written(
        tmp_path,
        {"tokenizer.json": TOKENIZER, "vocab.json": "[", "notes.json": "[", "text_encoder/tokenizer.json": TOKENIZER},
    )
    ledger = Ledger()
    documents = read_documents(tmp_path, names, ledger)
    assert documents == {"tokenizer.json": TOKENIZER}
    assert (ledger.files, ledger.files_total) == (["tokenizer.json"], 2)
    assert [(problem.rule, problem.path) for problem in ledger.problems] == [("unreadable", "vocab.json")]
    assert "text_encoder/tokenizer.json" in ledger.excluded[0]
    assert ledger.doubts == []


def test_without_tokenizer_json_nothing_is_decided(tmp_path: Path) -> None:
    ledger = Ledger()
    assert read_documents(tmp_path, written(tmp_path, {"vocab.json": {"a": 0}}), ledger) == {"vocab.json": {"a": 0}}
    assert "no tokenizer.json" in ledger.doubts[0].reason


def test_a_config_that_is_none_is_found() -> None:
    ledger = Ledger()
    assert model_config(None, ledger) is None
    assert rules(ledger) == []
    assert model_config({"architectures": 3}, ledger) is None
    assert [(problem.rule, problem.path) for problem in ledger.problems] == [("unreadable", "config.json")]


def test_the_ids_of_a_model_of_several_parts_are_those_of_its_text_part() -> None:
    ledger = Ledger()
    documents: dict[str, dict[str, Json]] = {
        "tokenizer.json": TOKENIZER,
        "tokenizer_config.json": {"eos_token": "</s>"},
        "config.json": {"bos_token_id": 0, "text_config": {"eos_token_id": 1, "bos_token_id": None}},
        "generation_config.json": {"eos_token_id": [1, 0]},
    }
    config = model_config(documents["config.json"], ledger)
    vocabulary, special = vocabulary_and_special(documents, config, ledger)
    assert dict(vocabulary.ids) == {"a": 0, "</s>": 1}
    assert special.texts == {"eos": "</s>"}
    assert special.model_ids == {
        "config.json": {"bos": (0,), "eos": (1,)},
        "generation_config.json": {"eos": (1, 0)},
    }
    assert rules(ledger) == []


def test_nonsense_is_a_finding_and_leaves_nothing_to_judge() -> None:
    ledger = Ledger()
    vocabulary, special = vocabulary_and_special({"tokenizer.json": {"model": 3}}, None, ledger)
    assert (vocabulary.pieces, vocabulary.named, special.texts, special.model_ids) == ((), (), {}, {})
    assert [(problem.rule, problem.path) for problem in ledger.problems] == [("unreadable", "tokenizer.json")]
