"""A model's tokenizer files: which of them are read, and what they say, typed. Nonsense in one is a finding.

Of the older forms of a vocabulary only the names stand here; they are compared with tokenizer.json where it is judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from modelctl.errors import InputError
from modelctl.model.config import ModelConfig, parse_config
from modelctl.model.strict_json import Json
from modelctl.tokenization.reading import MalformedError, json_object, shown_plain
from modelctl.tokenization.report import Ledger
from modelctl.tokenization.special import SpecialTokens, read_special_tokens
from modelctl.tokenization.tekken import NAME as TEKKEN
from modelctl.tokenization.vocabulary import Vocabulary, read_vocabulary

JSON_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "config.json",
    "generation_config.json",
)
"""Read and judged. Others of the tokenizer are only loaded."""
OLDER_FILES = (
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
    "vocab.txt",
    TEKKEN,
    "tiktoken.model",
)
"""A vocabulary in another form than tokenizer.json."""


def read_documents(root: Path, files: Sequence[str], ledger: Ledger) -> dict[str, Mapping[str, Json]]:
    """Those of `JSON_FILES` that are among `files` and can be read, by name; what can't is a finding."""
    found: dict[str, Mapping[str, Json]] = {}
    for name in JSON_FILES:
        if name not in files:
            continue
        ledger.files_total += 1
        try:
            found[name] = json_object(root, name)
            ledger.files.append(name)
        except MalformedError as error:
            unreadable(str(error), name, ledger)
    if "tokenizer.json" not in files:
        ledger.doubt(
            "there is no tokenizer.json: the older form of the vocabulary is tried, but what it says is not read",
            remedy="publish the tokenizer.json that transformers' save_pretrained writes for it",
        )
    for path in files:
        if "/" in path and path.endswith("/tokenizer.json"):
            ledger.excluded.append(f"{path}: another tokenizer, in a subfolder that engines do not load")
    return found


def unreadable(message: str, path: str, ledger: Ledger) -> None:
    """Write down that a file is not what it should be."""
    ledger.problem("unreadable", message, remedy="take the file from the upstream repository", path=path)


def model_config(raw: Mapping[str, Json] | None, ledger: Ledger) -> ModelConfig | None:
    """What config.json says; None without one, and where it says nonsense, which is a finding."""
    if raw is None:
        return None
    try:
        return parse_config(raw)
    except InputError as error:
        unreadable(shown_plain(error.message), "config.json", ledger)
        return None


def vocabulary_and_special(
    documents: Mapping[str, Mapping[str, Json]], config: ModelConfig | None, ledger: Ledger
) -> tuple[Vocabulary, SpecialTokens]:
    """What the files say of ids and special tokens; empty where they say nonsense, which is a finding."""
    settings = documents.get("tokenizer_config.json")
    model_files: dict[str, Mapping[str, Json]] = {}
    if config is not None:  # models of several parts keep the ids in the text part, or at the root
        stated = {key: value for key, value in config.text.items() if value is not None}
        model_files["config.json"] = {**config.raw, **stated}
    if "generation_config.json" in documents:
        model_files["generation_config.json"] = documents["generation_config.json"]
    try:
        vocabulary = read_vocabulary(documents.get("tokenizer.json"), settings, documents.get("added_tokens.json"))
        special = read_special_tokens(settings, documents.get("special_tokens_map.json"), model_files)
    except MalformedError as error:
        unreadable(str(error), "tokenizer.json", ledger)
        return read_vocabulary(None, None, None), read_special_tokens(None, None, {})
    return vocabulary, special
