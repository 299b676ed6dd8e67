"""What two libraries do with our texts: the file as `tokenizers` reads it against what transformers loads.

Both must give the same ids, one by one and in a batch, and the same text back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelctl.tokenization.corpus import corpus
from modelctl.tokenization.report import Ledger, around, listed, shown
from modelctl.tokenization.variants import CURE, Variants

_CLASS_CURE = (
    "name the class that tokenizer.json was made for in tokenizer_config.json (TokenizersBackend, which takes the file "
    "as it is); "
)


def compare(variants: Variants, *, rows: int | None, ledger: Ledger, max_differing_texts: int = 0) -> None:
    """Both libraries give the same ids and text, one by one and in a batch, and no id beyond the embedding.

    `max_differing_texts` may differ between the libraries, with a warning: classes of transformers 5 build some steps
    anew and not as tokenizer.json has them.
    """
    texts = [text for group in corpus().values() for text in group]
    ids = {name: [encode(text) for text in texts] for name, encode in variants.encoders}
    (first, reference), *others = ids.items()
    for name, answers in others:
        differing = [at for at, text in enumerate(texts) if reference[at] != answers[at]]
        ledger.figure("texts-with-other-ids", len(differing), of=len(texts))
        if not differing:
            continue
        at = differing[0]
        words = (
            f"{first} and {name} give different ids for {len(differing)} of {len(texts)} texts; "
            f"{shown(texts[at])}: {around(reference[at], answers[at])}"
        )
        if len(differing) > max_differing_texts:
            ledger.problem("variants-differ", words, remedy=_CLASS_CURE + CURE, path="tokenizer_config.json")
        else:
            ledger.warnings.append(f"{words}; the policy allows {max_differing_texts}")
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
