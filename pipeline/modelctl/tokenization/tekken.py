"""tekken.json (Mistral's own form) beside tokenizer.json: the same tokens under the same ids, the same ids for texts.

vLLM's Mistral mode and mistral-common read the one, every other program the other. A token's id is its rank behind
the special tokens; a text is split by the file's pattern, and the pair of lowest rank is joined first. The pattern is
the model's, so everything here runs in a bounded fork of its own.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from modelctl.tokenization.bounded import Answered, Bounds, Crashed, Exceeded, run_bounded
from modelctl.tokenization.reading import MalformedError, json_object, objects, optional_object, whole_number, word
from modelctl.tokenization.report import Ledger, listed, shown
from modelctl.tokenization.same_texts import compare_texts
from modelctl.tokenization.vocabulary import Vocabulary, byte_letters

NAME = "tekken.json"
_CURE = "take both files from one revision of the upstream repository, or remove tekken.json"
_BYTES = 256
_LONG = "long"
"""Texts of one endless word: joining its pairs here, in Python, would take minutes."""


@dataclass(frozen=True, kw_only=True)
class Tekken:
    """The file, typed."""

    pattern: str
    ranks: Mapping[bytes, int]
    specials: Mapping[str, int]
    """Ids of those that the file names; older files name none."""
    offset: int
    """How many ids the special tokens take: a token's id is its rank and this."""

    def encode(self, text: str) -> list[int]:
        """Ids of a text without special tokens."""
        import regex

        pieces = regex.findall(self.pattern, text)
        return [self.offset + rank for piece in pieces for rank in self._joined(piece.encode())]

    def _joined(self, piece: bytes) -> list[int]:
        if piece in self.ranks:
            return [self.ranks[piece]]
        parts = [piece[at : at + 1] for at in range(len(piece))]
        while len(parts) > 1:
            pairs = [self.ranks.get(left + right) for left, right in itertools.pairwise(parts)]
            known = [(rank, at) for at, rank in enumerate(pairs) if rank is not None]
            if not known:
                break
            _, at = min(known)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self.ranks[part] for part in parts]


def check_tekken(
    folder: Path, vocabulary: Vocabulary, bounds: Bounds, *, max_differing_texts: int, ledger: Ledger
) -> None:
    """Compare tekken.json in `folder` with tokenizer.json there, in a bounded fork."""
    if not vocabulary.byte_level:
        ledger.excluded.append(f"{NAME}: lists bytes, and tokenizer.json is not on bytes; not compared")
        return

    def step() -> JsonValue:
        seen = Ledger()
        _compare(folder, vocabulary, max_differing_texts, seen)
        return seen.report().model_dump(mode="json")

    match run_bounded(step, bounds):
        case Answered(value=value):
            ledger.absorb(value)
        case Exceeded(limit=limit):
            ledger.doubt(
                f"comparing {NAME} with tokenizer.json took more than {limit}",
                remedy="raise load_time_limit_s or load_memory_limit_mib in the policy",
            )
        case Crashed(how=how):
            _unreadable(f"{NAME}: reading it crashed: {how}", ledger)


def read_tekken(folder: Path) -> Tekken:
    """The file in a folder. Raises `MalformedError`."""
    raw = json_object(folder, NAME)
    config = optional_object(raw, "config") or {}
    offset = whole_number(config.get("default_num_special_tokens"), where=f"{NAME}: default_num_special_tokens")
    size = whole_number(config.get("default_vocab_size"), where=f"{NAME}: default_vocab_size")
    ranks: dict[bytes, int] = {}
    for rank, row in enumerate(objects(raw, "vocab")):
        if rank >= size - offset:
            break  # those behind are never used
        try:
            token = base64.b64decode(word(row.get("token_bytes"), where=f"{NAME}: token_bytes"), validate=True)
        except ValueError as error:
            raise MalformedError(f"{NAME}: token {rank} is {shown(row.get('token_bytes'))}, wanted base64") from error
        if row.get("rank") != rank or token in ranks or (rank < _BYTES and token != bytes([rank])):
            raise MalformedError(
                f"{NAME}: token {rank} is {shown(token)} of rank {shown(row.get('rank'))}; wanted ranks in order, "
                "the 256 bytes first, each token once"
            )
        ranks[token] = rank
    if len(ranks) < max(_BYTES, size - offset):
        raise MalformedError(f"{NAME}: {len(ranks)} tokens and {offset} special ones, wanted {size} together")
    return Tekken(
        pattern=word(config.get("pattern"), where=f"{NAME}: pattern"),
        ranks=ranks,
        specials={
            word(row.get("token_str"), where=f"{NAME}: token_str"): whole_number(row.get("rank"), where=f"{NAME}: rank")
            for row in objects(raw, "special_tokens")
        },
        offset=offset,
    )


def _compare(folder: Path, vocabulary: Vocabulary, max_differing_texts: int, seen: Ledger) -> None:
    try:
        tekken = read_tekken(folder)
    except MalformedError as error:
        _unreadable(str(error), seen)
        return
    seen.files.append(NAME)
    unlike = list(_other_ids(tekken, vocabulary))
    if unlike:
        seen.problem(
            "variants-differ",
            f"{len(unlike)} of {len(tekken.ranks) + len(tekken.specials)} tokens of {NAME} have another id in "
            f"tokenizer.json, or none: {listed(unlike)}",
            remedy=_CURE,
            path=NAME,
        )
    if len(unlike) * 10 <= len(tekken.ranks):
        _compare_texts(folder, tekken, max_differing_texts, seen)


def _other_ids(tekken: Tekken, vocabulary: Vocabulary) -> Iterator[str]:
    letters = byte_letters()
    texts = {"".join(letters[value] for value in token): rank for token, rank in tekken.ranks.items()}
    expected = {text: rank + tekken.offset for text, rank in texts.items()} | dict(tekken.specials)
    for text, number in expected.items():
        found = vocabulary.ids.get(text)
        if found != number:
            yield f"{number} {shown(text)} ({'absent' if found is None else found})"


def _compare_texts(folder: Path, tekken: Tekken, max_differing_texts: int, seen: Ledger) -> None:
    import regex

    def encode(texts: Sequence[str]) -> list[list[int]] | None:
        try:
            return [tekken.encode(text) for text in texts]
        except regex.error as error:
            _unreadable(f"{NAME}: its pattern is no regular expression: {error}", seen)
            return None

    compare_texts(
        folder, NAME, encode, without=(_LONG,), figure="tekken-texts-with-other-ids", cure=_CURE,
        max_differing_texts=max_differing_texts, seen=seen,
    )  # fmt: skip


def _unreadable(message: str, ledger: Ledger) -> None:
    ledger.problem("unreadable", message, remedy="take the file from the upstream repository", path=NAME)
