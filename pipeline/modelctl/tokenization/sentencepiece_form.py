"""The sentencepiece model beside tokenizer.json, as the sentencepiece library reads it: same pieces, same ids.

Programs that convert (llama.cpp) or train read the one, engines the other. The file is a protobuf that native code
parses, so everything here runs in a bounded fork of its own.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from modelctl.tokenization.bounded import Answered, Bounds, Crashed, Exceeded, run_bounded
from modelctl.tokenization.reading import MAX_FILE_BYTES, shown_plain
from modelctl.tokenization.report import Ledger, listed, shown
from modelctl.tokenization.same_texts import compare_texts
from modelctl.tokenization.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

NAMES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model")
_MAX_PIECES = 1 << 21
_CURE = "take both files from one revision of the upstream repository, or remove the older one"
_ODD = ("control", "lookalikes", "spaces", "long")
"""Groups of texts in which fast tokenizers are known to treat spaces and control characters their own way."""


def check_sentencepiece(
    folder: Path, name: str, vocabulary: Vocabulary, bounds: Bounds, *, max_differing_texts: int, ledger: Ledger
) -> None:
    """Compare the model `name` in `folder` with tokenizer.json there, in a bounded fork."""
    if importlib.util.find_spec("sentencepiece") is None:
        ledger.doubt(
            f"{name} is beside tokenizer.json, and without the sentencepiece library they can't be compared",
            remedy="pip install 'modelctl[tokenizer]'",
        )
        return
    if (folder / name).stat().st_size > MAX_FILE_BYTES:
        _unreadable(name, f"larger than {MAX_FILE_BYTES >> 20} MiB", ledger)
        return

    def step() -> JsonValue:
        seen = Ledger()
        _compare(folder, name, vocabulary, max_differing_texts, seen)
        return seen.report().model_dump(mode="json")

    ledger.tools["sentencepiece"] = version("sentencepiece")
    match run_bounded(step, bounds):
        case Answered(value=value):
            ledger.absorb(value)
        case Exceeded(limit=limit):
            ledger.doubt(
                f"comparing {name} with tokenizer.json took more than {limit}",
                remedy="raise load_time_limit_s or load_memory_limit_mib in the policy",
            )
        case Crashed(how=how):
            _unreadable(name, f"the sentencepiece library crashed on it: {how}", ledger)


def _compare(folder: Path, name: str, vocabulary: Vocabulary, max_differing_texts: int, seen: Ledger) -> None:
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor()
    try:
        model.Load(str(folder / name))
        pieces = [model.IdToPiece(number) for number in range(min(model.GetPieceSize(), _MAX_PIECES))]
    except Exception as error:  # noqa: BLE001 - native code raises what it likes on a broken file
        _unreadable(name, f"sentencepiece cannot read it: {error}", seen)
        return
    seen.files.append(name)
    offset = _compare_pieces(name, model, pieces, vocabulary, seen)
    if offset is not None:
        _compare_texts(folder, name, model, pieces, vocabulary, max_differing_texts, seen)


def _compare_pieces(
    name: str, model: SentencePieceProcessor, pieces: Sequence[str], vocabulary: Vocabulary, seen: Ledger
) -> int | None:
    """By how much ids of tokenizer.json are larger; None when the two have too little in common to try texts."""
    ordinary = [number for number in range(len(pieces)) if _is_ordinary(model, number)]
    shifts = Counter(vocabulary.ids[pieces[n]] - n for n in ordinary if pieces[n] in vocabulary.ids)
    offset = shifts.most_common(1)[0][0] if shifts else 0
    unlike = [n for n in ordinary if vocabulary.ids.get(pieces[n]) != n + offset]
    renamed = [
        n for n in range(len(pieces))
        if n not in set(ordinary) and offset == 0 and vocabulary.texts.get(n, pieces[n]) != pieces[n]
    ] if len(ordinary) < len(pieces) else []  # fmt: skip
    if renamed:
        seen.warnings.append(
            f"{name} and tokenizer.json name {len(renamed)} control or own tokens differently: "
            + listed(f"{n} is {shown(pieces[n])} and {shown(vocabulary.texts[n])}" for n in renamed)
        )
    if offset and name == "tokenizer.model":
        seen.problem(
            "variants-differ",
            f"every id of tokenizer.json is {offset:+d} from {name}'s: {shown(pieces[ordinary[0]])} has the "
            f"id {ordinary[0]} there",
            remedy=_CURE,
            path=name,
        )
    if unlike:
        examples = listed(f"{n} {shown(pieces[n])} ({vocabulary.ids.get(pieces[n], 'absent')})" for n in unlike)
        seen.problem(
            "variants-differ",
            f"{len(unlike)} of {len(ordinary)} pieces of {name} have another id in tokenizer.json, or none: {examples}",
            remedy=_CURE,
            path=name,
        )
    return None if len(unlike) * 10 > len(ordinary) else offset


def _compare_texts(
    folder: Path,
    name: str,
    model: SentencePieceProcessor,
    pieces: Sequence[str],
    vocabulary: Vocabulary,
    max_differing_texts: int,
    seen: Ledger,
) -> None:
    def encode(texts: Sequence[str]) -> list[list[int]]:
        return [[vocabulary.ids.get(pieces[number], -1) for number in ids] for ids in model.Encode(list(texts))]

    compare_texts(
        folder, name, encode, without=_ODD, figure="sentencepiece-texts-with-other-ids", cure=_CURE,
        max_differing_texts=max_differing_texts, seen=seen,
    )  # fmt: skip


def _is_ordinary(model: SentencePieceProcessor, number: int) -> bool:
    """A learned piece: neither a marker, a byte, nor (score 0) a symbol that was asked for."""
    return not (
        model.IsControl(number) or model.IsUnknown(number) or model.IsByte(number) or model.IsUnused(number)
        or model.GetScore(number) == 0
    )  # fmt: skip


def _unreadable(name: str, what: str, ledger: Ledger) -> None:
    ledger.problem(
        "unreadable", shown_plain(f"{name}: {what}"), remedy="take the file from the upstream repository", path=name
    )
