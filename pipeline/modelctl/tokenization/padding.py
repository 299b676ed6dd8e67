"""Whether a text in a padded or truncated batch has the ids that it has alone.

Engines and evaluations batch with padding; a pad token that is not one, or a side that settings and library see
differently, moves or replaces ids there and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence

from modelctl.tokenization.corpus import corpus
from modelctl.tokenization.report import Ledger, around, shown
from modelctl.tokenization.variants import CURE, Loaded, Variants

_CUT = 7
"""Tokens that truncation is asked to leave; less than any of the texts has."""


def check_padding(variants: Variants, ledger: Ledger) -> None:
    """Pad and truncate a batch of short and longer texts with transformers, as its settings say."""
    loaded = variants.loaded
    if loaded is None:
        return
    texts = [texts[0] for group, texts in corpus().items() if group not in ("control", "spaces", "long")]
    alone = [list(loaded(text, add_special_tokens=True, verbose=False)["input_ids"]) for text in texts]
    if loaded.pad_token is None:
        ledger.figure("padding", "no padding token")
    else:
        ledger.figure("padding", loaded.padding_side)
        _check_padded(loaded, texts, alone, ledger)
    _check_cut(loaded, texts, ledger)


def _check_padded(loaded: Loaded, texts: Sequence[str], alone: Sequence[list[int]], ledger: Ledger) -> None:
    answer = loaded(list(texts), add_special_tokens=True, verbose=False, padding=True, return_attention_mask=True)
    width = max(len(ids) for ids in alone)
    for text, ids, row, mask in zip(texts, alone, answer["input_ids"], answer["attention_mask"], strict=True):
        kept = [number for number, is_text in zip(row, mask, strict=True) if is_text]
        fill = [number for number, is_text in zip(row, mask, strict=True) if not is_text]
        if kept != ids or len(row) != width:
            _differs(f"padding changes {shown(text)}: {around(ids, kept)}", ledger)
            return
        if any(number != loaded.pad_token_id for number in fill):
            _differs(f"a batch is filled with {fill[0]}, and the padding token is {loaded.pad_token_id}", ledger)
            return


def _check_cut(loaded: Loaded, texts: Sequence[str], ledger: Ledger) -> None:
    plain = [list(loaded(text, add_special_tokens=False, verbose=False)["input_ids"]) for text in texts]
    answer = loaded(list(texts), add_special_tokens=False, verbose=False, truncation=True, max_length=_CUT)
    for text, ids, row in zip(texts, plain, answer["input_ids"], strict=True):
        wanted = ids[-_CUT:] if loaded.truncation_side == "left" else ids[:_CUT]
        if list(row) != wanted:
            _differs(f"cut at {_CUT} tokens, {shown(text)} is {shown(list(row))}, wanted {shown(wanted)}", ledger)
            return
    again = [list(loaded(text, add_special_tokens=False, verbose=False)["input_ids"]) for text in texts]
    if again != plain:
        _differs("after a padded or truncated batch a text alone has other ids than before", ledger)


def _differs(words: str, ledger: Ledger) -> None:
    ledger.problem("batch-differs", words, remedy=CURE, path="tokenizer_config.json")
