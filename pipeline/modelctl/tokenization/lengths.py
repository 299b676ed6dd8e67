"""Whether tokenizer_config.json, config.json and tokenizer.json's truncation agree on how long a text may be.

Published models disagree on purpose: Qwen 2.5 says 131072 in tokenizer_config.json and 32768 positions (longer texts
with rope scaling), a distilled DeepSeek 16384 and 131072. Where positions are computed that is a warning; where they
are a learned table, a longer text is an index error.
"""

from __future__ import annotations

from collections.abc import Mapping

from modelctl.model.config import ModelConfig
from modelctl.model.strict_json import Json
from modelctl.tokenization.report import Ledger, shown

NO_LIMIT = 1 << 40
"""Above this a maximum means "none": transformers writes 1e30."""
_POSITION_TABLES = frozenset(
    {"bert", "bart", "biogpt", "camembert", "deberta", "distilbert", "electra", "gpt2", "gpt_bigcode", "opt", "roberta",
     "xlm-roberta"}
)  # fmt: skip
"""`model_type`s whose positions are a learned table; in some (RoBERTa, OPT) two rows are not for tokens."""


def check_lengths(
    settings: Mapping[str, Json] | None,
    truncation: int | None,
    config: ModelConfig | None,
    ledger: Ledger,
) -> None:
    """`settings` is tokenizer_config.json, `truncation` what tokenizer.json by itself cuts at."""
    stated = (settings or {}).get("model_max_length", NO_LIMIT)
    if stated is None:
        stated = NO_LIMIT
    if isinstance(stated, bool) or not isinstance(stated, int | float) or not stated >= 1:
        ledger.problem(
            "max-length",
            f"model_max_length is {shown(stated)}, wanted a number of tokens: programs cut every text to nothing",
            remedy="set model_max_length in tokenizer_config.json to the model's maximum length",
            path="tokenizer_config.json",
        )
        return
    limit = None if stated >= NO_LIMIT else int(stated)
    positions = config.max_position_embeddings if config is not None else None
    ledger.figure("maximum-length", positions, unit="tokens", model_max_length=limit or 0, truncation=truncation or 0)
    _check_truncation(truncation, positions, config, ledger)
    if limit is None or positions is None or limit == positions:
        return
    words = f"tokenizer_config.json says model_max_length {limit}, config.json has {positions} positions"
    if limit > positions and config is not None and config.model_type in _POSITION_TABLES:
        ledger.problem(
            "max-length",
            f"{words}, and they are a table: a longer text is an index error",
            remedy=f"set model_max_length to {positions} at most",
            path="tokenizer_config.json",
        )
    elif limit > positions or positions - limit > 2:  # two of RoBERTa's positions are not for tokens
        ledger.warnings.append(f"{words}: programs differ in which they take for the maximum length")


def _check_truncation(
    truncation: int | None, positions: int | None, config: ModelConfig | None, ledger: Ledger
) -> None:
    if truncation is None:
        return
    words = f"tokenizer.json, loaded by itself, cuts every text at {truncation} tokens"
    writes = config is not None and any(
        name.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")) for name in config.architectures
    )
    if truncation < 1 or (writes and positions is not None and truncation < positions):
        ledger.problem(
            "max-length",
            f"{words}, and the model takes {positions}: long prompts lose their end without a word",
            remedy="remove 'truncation' from tokenizer.json; a training script left it there",
            path="tokenizer.json",
        )
    else:
        ledger.warnings.append(words)
