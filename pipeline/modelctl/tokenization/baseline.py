"""Whether a quantised or fine-tuned release turns text into the ids of the model that it was made from.

Its weights were trained on those ids. Tokens may be added; a token that has moved, or a text with other ids, is wrong.
Call `compare_baseline` in a bounded fork: the original is a stranger's file too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from modelctl.model.strict_json import Json
from modelctl.tokenization.corpus import corpus
from modelctl.tokenization.reading import json_object, shown_plain
from modelctl.tokenization.report import Ledger, around, listed, shown
from modelctl.tokenization.special import read_special_tokens
from modelctl.tokenization.variants import Variants

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CURE = "take tokenizer.json and tokenizer_config.json of the original, byte for byte"


def compare_baseline(
    variants: Variants, folder: Path, settings: Mapping[str, Json], *, exactly: bool, ledger: Ledger
) -> None:
    """`variants` is the release's tokenizer, `folder` holds the original's files, `settings` is tokenizer_config.json.

    `exactly`: the release is the original with other numbers (quantised), so its special tokens are the same too.
    """
    from tokenizers import Tokenizer

    original = folder / "tokenizer.json"
    if variants.raw is None or not original.exists():
        ledger.doubt(
            "the tokenizer can't be compared with the original's: "
            + ("there is no tokenizer.json that loads" if variants.raw is None else "that has no tokenizer.json"),
            remedy="publish tokenizer.json with both",
        )
        return
    try:
        other = Tokenizer.from_file(str(original))
        roles = _roles(folder)
    except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
        ledger.doubt(
            shown_plain(f"the original's tokenizer does not load: {error}"),
            remedy="name a whole model as baseline in the release file",
        )
        return
    other.no_truncation()
    other.no_padding()
    _compare_ids(variants, other, ledger)
    _compare_vocabularies(variants.raw.get_vocab(), other.get_vocab(), ledger)
    own = read_special_tokens(settings, None, {}).texts
    moved = [
        f"{role} is {shown(own.get(role))}, the original's {shown(text)}"
        for role, text in roles.items()
        if role in ("bos", "eos", "pad") and own.get(role) != text
    ]
    if not moved:
        return
    words = "special tokens are not the original's: " + "; ".join(moved)
    if exactly:
        ledger.problem("baseline-differs", words, remedy=_CURE, path="tokenizer_config.json")
    else:
        ledger.warnings.append(words)


def _compare_ids(variants: Variants, other: Tokenizer, ledger: Ledger) -> None:
    texts = [text for group in corpus().values() for text in group]
    theirs = Variants(raw=other, loaded=None).encode_all(texts)
    ours = variants.encode_all(texts)
    unlike = [at for at in range(len(texts)) if ours[at] != theirs[at]]
    ledger.figure("texts-with-other-ids-than-the-original", len(unlike), of=len(texts))
    if unlike:
        at = unlike[0]
        ledger.problem(
            "baseline-differs",
            f"{len(unlike)} of {len(texts)} texts have other ids than with the original's tokenizer; "
            f"{shown(texts[at])}: {around(theirs[at], ours[at])}",
            remedy=_CURE,
            path="tokenizer.json",
        )


def _compare_vocabularies(ours: Mapping[str, int], theirs: Mapping[str, int], ledger: Ledger) -> None:
    moved = [(text, number) for text, number in theirs.items() if ours.get(text) != number]
    if moved:
        examples = listed(f"{shown(text)} is {ours.get(text, 'absent')}, was {number}" for text, number in moved)
        ledger.problem(
            "baseline-differs",
            f"{len(moved)} tokens of the original have another id, or none: {examples}",
            remedy=_CURE,
            path="tokenizer.json",
        )
    added = ours.keys() - theirs.keys()
    if added:
        examples = listed(map(shown, sorted(added)))
        ledger.warnings.append(f"{len(added)} tokens that the original does not have: {examples}")


def _roles(folder: Path) -> Mapping[str, str]:
    """What the original's files name as begin, end, padding. Raises `MalformedError`."""
    names = ("tokenizer_config.json", "special_tokens_map.json")
    settings, older = (json_object(folder, name) if (folder / name).exists() else None for name in names)
    return read_special_tokens(settings, older, {}).texts
