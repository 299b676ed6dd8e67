"""Whether the class that tokenizer_config.json names fits the vocabulary in tokenizer.json.

Since transformers 5 a named class builds its own pipeline around the file's vocabulary, so a wrong name gives other
ids, or none. An unknown name is passed over silently.
"""

from __future__ import annotations

from collections.abc import Mapping

from modelctl.model.strict_json import Json
from modelctl.tokenization.report import Ledger, shown
from modelctl.tokenization.vocabulary import Vocabulary

_BPE, _PIECES, _UNIGRAM = ("BPE",), ("WordPiece",), ("Unigram",)
_MODELS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("BartTokenizer", "CLIPTokenizer", "CodeGenTokenizer", "CodeLlamaTokenizer", "CohereTokenizer",
         "DebertaTokenizer", "GPT2Tokenizer", "GPTNeoXTokenizer", "GemmaTokenizer", "LEDTokenizer",
         "LongformerTokenizer", "NllbTokenizer", "Qwen2Tokenizer", "Qwen3Tokenizer", "RobertaTokenizer",
         "WhisperTokenizer"),
        _BPE,
    ),
    **dict.fromkeys(
        ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "FunnelTokenizer", "LayoutLMTokenizer",
         "MPNetTokenizer", "MobileBertTokenizer", "SqueezeBertTokenizer"),
        _PIECES,
    ),
    **dict.fromkeys(
        ("AlbertTokenizer", "BarthezTokenizer", "BigBirdTokenizer", "CamembertTokenizer", "DebertaV2Tokenizer",
         "MBart50Tokenizer", "MBartTokenizer", "PegasusTokenizer", "ReformerTokenizer", "RemBertTokenizer",
         "T5Tokenizer", "XLMRobertaTokenizer", "XLNetTokenizer"),
        _UNIGRAM,
    ),
    "LlamaTokenizer": ("BPE", "Unigram"),  # a sentencepiece model may be either
}  # fmt: skip
"""Class without "Fast" to the types of `model` in tokenizer.json that its family has."""


def check_declared(settings: Mapping[str, Json] | None, vocabulary: Vocabulary, ledger: Ledger) -> None:
    """The class named fits the type of the vocabulary."""
    named = (settings or {}).get("tokenizer_class")
    if not isinstance(named, str) or not vocabulary.model:
        return
    fitting = _MODELS.get(named.removesuffix("Fast"))
    if fitting is not None and vocabulary.model not in fitting:
        ledger.problem(
            "class",
            f"tokenizer_config.json names {shown(named)}, which is for a vocabulary of the type "
            f"{' or '.join(fitting)}; tokenizer.json's is {shown(vocabulary.model)}",
            remedy="name the class that tokenizer.json was made for, or TokenizersBackend, which takes it as it is",
            path="tokenizer_config.json",
        )


def check_known_class(settings: Mapping[str, Json], loaded: object, version: str, ledger: Ledger) -> None:
    """Warn when transformers knows no class of the name and took another without a word."""
    named = settings.get("tokenizer_class")
    if not isinstance(named, str):
        return
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    if tokenizer_class_from_name(named) is None and tokenizer_class_from_name(named.removesuffix("Fast")) is None:
        ledger.warnings.append(
            f"transformers {version} knows no {shown(named)}, which tokenizer_config.json names, and loads "
            f"{type(loaded).__name__} instead"
        )
