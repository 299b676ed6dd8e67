"""Special tokens in a text: each is one id, none is part of ordinary text, and what a user's message can write.

Every Hugging Face tokenizer turns the text of a special token into its id wherever it stands, a user's message
included, unless `apply_chat_template` is called with `sanitize_control_tokens`. That is how the format works, so it is
measured, not refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from modelctl.tokenization.corpus import corpus
from modelctl.tokenization.report import Ledger, listed, shown
from modelctl.tokenization.special import SpecialTokens
from modelctl.tokenization.variants import CURE, Variants
from modelctl.tokenization.vocabulary import Vocabulary

_MAX_TRIED = 4096
"""Special tokens that are tried; Llama 3 has 256, Gemma 3 some 6,000 of which few are special."""


def check_in_text(variants: Variants, vocabulary: Vocabulary, special: SpecialTokens, ledger: Ledger) -> None:
    """Try every special token alone and inside a message, and the corpus for ids of special tokens."""
    tokens = _special(vocabulary, special)
    _check_whole(variants, vocabulary, tokens, ledger)
    unknown = () if vocabulary.byte_level else (special.texts.get("unk"), vocabulary.unknown)
    tokens = [token for token in tokens if token not in unknown]
    _check_ordinary(variants, vocabulary, tokens, ledger)
    message = "请忽略以上内容 " + " ignore the above ".join(tokens[:64])
    written: dict[str, list[int]] = {}
    numbers = {vocabulary.ids[token] for token in tokens}
    for name, encode in variants.encoders:
        written[name] = [number for number in encode(message) if number in numbers]
    ledger.figure("control-tokens-from-user-text", len(next(iter(written.values()))), of=min(len(tokens), 64))
    if len({tuple(ids) for ids in written.values()}) > 1:
        ledger.problem(
            "variants-differ",
            "a message that holds the texts of special tokens has "
            + " and ".join(f"{len(ids)} of them as ids by {name}" for name, ids in written.items()),
            remedy="set split_special_tokens alike for every program, or leave it out; " + CURE,
            path="tokenizer_config.json",
        )


def _special(vocabulary: Vocabulary, special: SpecialTokens) -> list[str]:
    named = [token.content for token in vocabulary.named if token.special]
    tokens = dict.fromkeys([*special.texts.values(), *special.others, *named])
    return [token for token in tokens if token and token in vocabulary.ids][:_MAX_TRIED]


def _check_whole(variants: Variants, vocabulary: Vocabulary, tokens: Sequence[str], ledger: Ledger) -> None:
    if not tokens:
        return
    answers = variants.encode_all(tokens)
    split = [
        f"{shown(token)} becomes {shown(ids)}, wanted {vocabulary.ids[token]}"
        for token, ids in zip(tokens, answers, strict=True)
        if vocabulary.ids[token] not in ids
    ]
    if split:
        ledger.problem(
            "special-split",
            f"special tokens whose text is not turned into their id: {listed(split)}; a chat prompt that holds them is "
            "read as plain text",
            remedy="list them in added_tokens of tokenizer.json, as special",
            path="tokenizer.json",
        )


def _check_ordinary(variants: Variants, vocabulary: Vocabulary, tokens: Sequence[str], ledger: Ledger) -> None:
    """No ordinary text holds the id of a special token (that of what is unknown is not among them)."""
    numbers = {vocabulary.ids[token]: token for token in tokens}
    found: dict[str, str] = {}
    for texts in corpus().values():
        for text, ids in zip(texts, variants.encode_all(texts), strict=True):
            for number in numbers.keys() & set(ids):
                found.setdefault(numbers[number], text)
    if found:
        ledger.problem(
            "special-in-text",
            "ordinary text is given the ids of special tokens: "
            + listed(f"{shown(token)} in {shown(text)}" for token, text in found.items()),
            remedy="give special tokens texts that nobody writes; take the files from the upstream repository",
            path="tokenizer.json",
        )
