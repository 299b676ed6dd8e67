"""Whether a vocabulary agrees with itself and with the embedding.

One text has one id in all files, every id is a row of the embedding, and every byte of everyday text can be written.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from modelctl.tokenization.report import Ledger, listed, shown
from modelctl.tokenization.vocabulary import Vocabulary

VITAL_BYTES = frozenset({9, 10, 13, *range(0x20, 0x7F), *range(0x80, 0xC0), *range(0xC2, 0xF1)})
"""Bytes without which everyday UTF-8 text is lost: printable ASCII, tab, line ends, and those of planes 0 to 3."""


def check_clashes(vocabulary: Vocabulary, ledger: Ledger) -> None:
    """One text has one id and one id one text, in all files together."""
    by_text: dict[str, dict[int, str]] = defaultdict(dict)
    by_id: dict[int, dict[str, str]] = defaultdict(dict)
    rows = [(text, number, "tokenizer.json") for text, number in vocabulary.pieces]
    rows += [(token.content, token.id, token.origin) for token in vocabulary.named]
    for text, number, origin in rows:
        by_text[text].setdefault(number, origin)
        by_id[number].setdefault(text, origin)
    two_ids = [
        f"{shown(text)} is " + " and ".join(f"{number} in {origin}" for number, origin in ids.items())
        for text, ids in by_text.items()
        if len(ids) > 1
    ]
    two_texts = [
        f"{number} is " + " and ".join(f"{shown(text)} in {origin}" for text, origin in texts.items())
        for number, texts in by_id.items()
        if len(texts) > 1
    ]
    remedy = "give every token one id in all of them, or take the files from the upstream repository"
    if two_ids:
        ledger.problem("id-clash", f"tokens with two ids: {listed(two_ids)}", remedy=remedy)
    if two_texts:
        ledger.problem("id-clash", f"ids that stand for two tokens: {listed(two_texts)}", remedy=remedy)
    listed_here = [token.content for token in vocabulary.named if token.origin == "tokenizer.json"]
    twice = [text for text, count in Counter(listed_here).items() if count > 1]
    if twice:
        ledger.problem(
            "special-duplicate",
            f"tokenizer.json lists an added token more than once: {listed(map(shown, twice))}; programs "
            "differ in which row they take",
            remedy="keep one row for each token in added_tokens",
            path="tokenizer.json",
        )


def check_range(vocabulary: Vocabulary, rows: int | None, origin: str, ledger: Ledger) -> None:
    """Every id is a row of the embedding; more rows than tokens are padding and fine."""
    used = {number: text for text, number in vocabulary.ids.items()}
    used |= {token.id: token.content for token in vocabulary.named}
    used |= {number: text for text, number in vocabulary.pieces}
    outside = sorted(number for number in used if number < 0 or (rows is not None and number >= rows))
    if outside:
        examples = [f"{number} ({shown(used[number])})" for number in outside]
        wanted = "not negative" if rows is None else f"0 to {rows - 1}: {origin}"
        ledger.problem(
            "id-range",
            f"{len(outside)} token ids outside the embedding: {listed(examples)}; wanted {wanted}",
            remedy="remove the added tokens, or publish weights whose embedding was resized for them",
        )


def check_bytes(vocabulary: Vocabulary, ledger: Ledger) -> None:
    """A vocabulary on bytes can write every byte of everyday text; rarer gaps are a warning."""
    missing = vocabulary.missing_bytes
    vital = [f"0x{value:02X}" for value in missing if value in VITAL_BYTES]
    rare = [
        f"0x{value:02X}" for value in missing if value not in VITAL_BYTES and value not in (0xC0, 0xC1) and value < 0xF5
    ]
    if vital:
        ledger.problem(
            "missing-bytes",
            f"the vocabulary has no token for {len(vital)} bytes of everyday text: {listed(vital)}; they vanish",
            remedy="take tokenizer.json from the upstream repository, or add the 256 byte tokens and train their rows",
            path="tokenizer.json",
        )
    if rare:
        ledger.warnings.append(f"the vocabulary has no token for the bytes {', '.join(rare)}: they vanish from a text")
