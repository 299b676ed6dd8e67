"""Whether text comes back from its ids: exactly for a vocabulary on bytes, measured for one that folds on purpose."""

from __future__ import annotations

import re

from modelctl.tokenization.corpus import CORPUS_VERSION, corpus, more_texts
from modelctl.tokenization.report import Ledger, around
from modelctl.tokenization.variants import CURE, Variants
from modelctl.tokenization.vocabulary import Vocabulary

_FAITHFUL_NORMALIZERS = frozenset({"NFC", "NFD", "NFKC", "NFKD", "ByteLevel", "Prepend", "Replace"})
_LOSSY_SPLITTERS = frozenset({"Whitespace", "WhitespaceSplit", "BertPreTokenizer", "CharDelimiterSplit"})
_UNUSUAL = ("control", "lookalikes", "long", "spaces", "more")
"""Groups whose texts say nothing of how densely a vocabulary writes a language."""


def round_trips(
    variants: Variants,
    vocabulary: Vocabulary,
    *,
    max_lossy_texts: int | None,
    ledger: Ledger,
    more_bytes: int = 0,
    rows: int | None = None,
) -> None:
    """Text comes back from its ids, all of which are rows of the embedding. `max_lossy_texts` None only measures.

    `more_bytes` of further texts are tried beside the corpus.
    """
    lossy: list[tuple[str, str]] = []
    excused = total = top = 0
    for group, texts in {**corpus(), "more": more_texts(more_bytes)}.items():
        answers = variants.encode_all(texts)
        for text, decoded in zip(texts, variants.decode_all(answers), strict=True):
            if decoded == text:
                continue
            expected = _normalized(variants, text)
            if _same(decoded, text) or _same(decoded, expected):
                continue
            if any(value in vocabulary.missing_bytes for value in expected.encode()):
                excused += 1
            else:
                lossy.append((expected, decoded))
        total += len(texts)
        top = max(top, max((max(ids, default=0) for ids in answers), default=0))
        tokens = sum(len(ids) for ids in answers)
        if group not in _UNUSUAL and tokens:
            ratio = round(sum(len(text) for text in texts) / tokens, 3)
            ledger.figure("characters-per-token", ratio, group=group, corpus=CORPUS_VERSION)
    if rows is not None and top >= rows:
        ledger.problem("id-range", f"a text was given the id {top}, and the embedding ends at {rows - 1}", remedy=CURE)
    parameters: dict[str, str | int | float] = {"of": total, "corpus": CORPUS_VERSION, "more_bytes": more_bytes}
    ledger.figure("lossless-texts", total - excused - len(lossy), unit="", **parameters)
    ledger.figure("texts-with-unwritable-bytes", excused, unit="", **parameters)
    if max_lossy_texts is None:
        return
    exact = is_exact(vocabulary)
    if exact and len(lossy) > max_lossy_texts:
        expected, decoded = lossy[0]
        ledger.problem(
            "round-trip",
            f"{len(lossy)} of {total} texts do not come back from their ids (a vocabulary on bytes may lose "
            f"{max_lossy_texts}); {around(expected, decoded)}",
            remedy="tokenizer.json's pre-tokenizer, decoder or merges do not fit its vocabulary: " + CURE,
            path="tokenizer.json",
        )
    elif not exact and _nothing_survives(variants):
        ledger.problem(
            "round-trip",
            "neither a plain Chinese nor a plain English sentence comes back from its ids, not even its letters",
            remedy="the vocabulary does not belong to this tokenizer: " + CURE,
        )


def is_exact(vocabulary: Vocabulary) -> bool:
    """Whether every text must come back: a vocabulary on bytes without lossy normalizers or splitters."""
    return (
        (vocabulary.byte_level or vocabulary.byte_fallback)
        and set(vocabulary.normalizers) <= _FAITHFUL_NORMALIZERS
        and not set(vocabulary.splitters) & _LOSSY_SPLITTERS
    )


def _normalized(variants: Variants, text: str) -> str:
    """The text as the tokenizer's own normalizer leaves it; what it does on purpose is no loss."""
    normalizer = variants.raw.normalizer if variants.raw is not None else None
    if normalizer is None or type(normalizer).__name__ == "ByteLevel":
        return text
    return str(normalizer.normalize_str(text))


def _same(decoded: str, expected: str) -> bool:
    """Equal but for SentencePiece's mark of a space and for one space in front, which many tokenizers add or take."""
    left, right = decoded.replace("▁", " "), expected.replace("▁", " ")
    return left in (right, f" {right}") or f" {left}" == right


def _nothing_survives(variants: Variants) -> bool:
    groups = corpus()
    for text in (groups["chinese"][0], groups["latin"][0]):
        (decoded,) = variants.decode_all(variants.encode_all([text]))
        if _letters(decoded) == _letters(text):
            return False
    return True


def _letters(text: str) -> str:
    return re.sub(r"\W", "", text).casefold()
