"""What the tokenizer does with our texts: the file as `tokenizers` reads it against what transformers loads.

Both must give the same ids, one by one and in a batch, and the text must come back. A vocabulary on bytes must be
exact; one that normalizes on purpose (lower case, Unicode folding) is measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from modelctl.tokenization.corpus import CORPUS_VERSION, corpus
from modelctl.tokenization.report import Ledger, listed, shown
from modelctl.tokenization.variants import CURE, Variants
from modelctl.tokenization.vocabulary import Vocabulary

_FAITHFUL_NORMALIZERS = frozenset({"NFC", "NFD", "NFKC", "NFKD", "ByteLevel", "Prepend", "Replace"})
_LOSSY_SPLITTERS = frozenset({"Whitespace", "WhitespaceSplit", "BertPreTokenizer", "CharDelimiterSplit"})


def compare(variants: Variants, *, rows: int | None, ledger: Ledger) -> None:
    """Both libraries give the same ids and text, one by one and in a batch, and no id beyond the embedding."""
    texts = [text for group in corpus().values() for text in group]
    ids = {name: [encode(text) for text in texts] for name, encode in variants.encoders}
    (first, reference), *others = ids.items()
    for name, answers in others:
        differing = [text for text, left, right in zip(texts, reference, answers, strict=True) if left != right]
        if differing:
            at = texts.index(differing[0])
            ledger.problem(
                "variants-differ",
                f"{first} and {name} give different ids for {len(differing)} of {len(texts)} texts; "
                f"{shown(differing[0])}: {_around(reference[at], answers[at])}",
                remedy="name the class that tokenizer.json was made for in tokenizer_config.json (TokenizersBackend); "
                + CURE,
                path="tokenizer_config.json",
            )
    if len(variants.decoders) == 2:
        (_, decode), (_, other) = variants.decoders
        unlike = [text for text, number in zip(texts, reference, strict=True) if decode(number) != other(number)]
        if unlike:
            ledger.problem(
                "variants-differ",
                f"tokenizers and transformers decode the ids of {len(unlike)} of {len(texts)} texts differently: "
                f"{shown(unlike[0])}",
                remedy=CURE,
                path="tokenizer_config.json",
            )
    _compare_batch(variants, texts, ids, ledger)
    top = max((max(answer, default=0) for answers in ids.values() for answer in answers), default=0)
    if rows is not None and top >= rows:
        ledger.problem("id-range", f"a text was given the id {top}, and the embedding ends at {rows - 1}", remedy=CURE)
    ledger.texts += len(texts)


def compare_vocabularies(variants: Variants, *, rows: int | None, ledger: Ledger) -> None:
    """Loading adds no token past the embedding: transformers appends what a setting names and the file lacks."""
    if variants.raw is None or variants.loaded is None:
        return
    before = variants.raw.get_vocab(with_added_tokens=True)
    appended = {text: number for text, number in variants.loaded.get_vocab().items() if before.get(text) != number}
    if not appended:
        return
    examples = listed(f"{shown(text)} {number}" for text, number in appended.items())
    words = f"transformers gives these tokens other ids than tokenizer.json: {examples}"
    if rows is not None and max(appended.values()) >= rows:
        ledger.problem(
            "id-range", f"{words}; the embedding ends at {rows - 1}", remedy=CURE, path="tokenizer_config.json"
        )
    else:
        ledger.warnings.append(words)


def round_trips(variants: Variants, vocabulary: Vocabulary, *, max_lossy_texts: int | None, ledger: Ledger) -> None:
    """Text comes back from its ids. `max_lossy_texts` None only measures."""
    exact = is_exact(vocabulary)
    lossy: list[tuple[str, str]] = []
    excused = total = 0
    for group, texts in corpus().items():
        answers = [variants.encode(text) for text in texts]
        for text, ids in zip(texts, answers, strict=True):
            total += 1
            decoded = variants.decoders[0][1](ids)
            expected = _normalized(variants, text)
            if _same(decoded, text) or _same(decoded, expected):
                continue
            if any(value in vocabulary.missing_bytes for value in expected.encode()):
                excused += 1
            else:
                lossy.append((expected, decoded))
        tokens = sum(len(ids) for ids in answers)
        if group not in ("control", "lookalikes", "long", "spaces") and tokens:
            ratio = round(sum(len(text) for text in texts) / tokens, 3)
            ledger.figure("characters-per-token", ratio, group=group, corpus=CORPUS_VERSION)
    ledger.figure("lossless-texts", total - excused - len(lossy), of=total, corpus=CORPUS_VERSION)
    ledger.figure("texts-with-unwritable-bytes", excused, of=total, corpus=CORPUS_VERSION)
    if max_lossy_texts is None:
        return
    if exact and len(lossy) > max_lossy_texts:
        expected, decoded = lossy[0]
        ledger.problem(
            "round-trip",
            f"{len(lossy)} of {total} texts do not come back from their ids (a vocabulary on bytes may lose "
            f"{max_lossy_texts}); {_around(expected, decoded)}",
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


def _compare_batch(
    variants: Variants, texts: Sequence[str], ids: Mapping[str, list[list[int]]], ledger: Ledger
) -> None:
    batches: dict[str, list[list[int]]] = {}
    if variants.raw is not None:
        batches["tokenizers"] = [
            list(one.ids) for one in variants.raw.encode_batch(list(texts), add_special_tokens=False)
        ]
    if variants.loaded is not None:
        answer = variants.loaded(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        batches["transformers"] = [list(row) for row in answer]
    for name, answers in batches.items():
        if answers != ids[name]:
            ledger.problem(
                "batch-differs", f"{name} gives other ids for a text in a batch than for the text alone", remedy=CURE
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
    return left == right or left.removeprefix(" ") == right.removeprefix(" ")


def _nothing_survives(variants: Variants) -> bool:
    groups = corpus()
    for text in (groups["chinese"][0], groups["latin"][0]):
        decoded = variants.decoders[0][1](variants.encode(text))
        if _letters(decoded) == _letters(text):
            return False
    return True


def _letters(text: str) -> str:
    return re.sub(r"\W", "", text).casefold()


def _around(left: Sequence[object], right: Sequence[object]) -> str:
    """Both sequences near their first difference."""
    at = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    begin = max(0, at - 5)
    return f"{shown(left[begin : at + 15])} became {shown(right[begin : at + 15])} at position {at}"
