"""Shortcuts to what the tests of this folder look at: a tiny model's files, typed, and the rules that were broken."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from modelctl.model.strict_json import Json
from modelctl.tokenization.report import Ledger
from modelctl.tokenization.special import SpecialTokens, read_special_tokens
from modelctl.tokenization.vocabulary import Vocabulary, read_vocabulary


def edit_json(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Load a JSON file, change it in place, write it back."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def rules(ledger: Ledger) -> list[str]:
    """The rules of every problem, in order."""
    return [problem.rule for problem in ledger.problems]


def a_vocabulary(tokens: Mapping[str, Json], **other: Json) -> Vocabulary:
    """A BPE vocabulary of these pieces; `other` are further parts of tokenizer.json."""
    return read_vocabulary({"model": {"type": "BPE", "vocab": tokens, "merges": []}, **other}, None, None)


def some_special_tokens(
    *, config: Mapping[str, Json] | None = None, generation: Mapping[str, Json] | None = None, **texts: str
) -> SpecialTokens:
    """Special tokens as the files name them: `eos="</s>"`, `config={"eos_token_id": 2}`."""
    files = {"config.json": config or {}}
    if generation is not None:
        files["generation_config.json"] = generation
    return read_special_tokens({f"{role}_token": text for role, text in texts.items()}, None, files)
