"""Whether the older forms of a vocabulary beside tokenizer.json say the same: other programs read those.

Here the forms in text: vocab.json with merges.txt, vocab.txt, and tiktoken's list of bytes and ranks.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from pathlib import Path

from modelctl.model.strict_json import Json
from modelctl.tokenization.reading import MAX_FILE_BYTES, MalformedError, optional_object, text
from modelctl.tokenization.report import Ledger, listed, shown
from modelctl.tokenization.vocabulary import Vocabulary, byte_letters


def check_copies(
    vocabulary: Vocabulary, copy: Mapping[str, Json], merges: str | None, tokenizer: Mapping[str, Json], ledger: Ledger
) -> None:
    """vocab.json and merges.txt say what tokenizer.json says."""
    _compare("vocab.json", copy, vocabulary, ledger)
    if merges is None:
        return
    lines = [line.removesuffix("\r") for line in merges.split("\n")]
    older = [line for index, line in enumerate(lines) if line and not (index == 0 and line.startswith("#version"))]
    newer = list(_merges(optional_object(tokenizer, "model") or {}))
    if older == newer:
        return
    at = next((i for i, (a, b) in enumerate(zip(older, newer, strict=False)) if a != b), min(len(older), len(newer)))
    one, two = (shown(rows[at]) if at < len(rows) else "nothing" for rows in (older, newer))
    ledger.problem(
        "variants-differ",
        f"merges.txt has {len(older)} merges and tokenizer.json {len(newer)}; the first that differs is number {at}: "
        f"{one} and {two}",
        remedy="make vocab.json and merges.txt from tokenizer.json, or remove them",
        path="merges.txt",
    )


def check_word_list(path: Path, vocabulary: Vocabulary, ledger: Ledger) -> None:
    """vocab.txt: a piece on each line, whose number is its id. Raises `MalformedError`."""
    lines = text(path, max_bytes=MAX_FILE_BYTES).split("\n")
    if lines[-1] == "":
        lines.pop()
    pieces = [line.removesuffix("\r") for line in lines]
    repeated = len(pieces) - len(set(pieces))
    if repeated:
        ledger.problem(
            "id-clash", f"{repeated} lines of {path.name} repeat an earlier one: one text, two ids",
            remedy="take the file from the upstream repository", path=path.name,
        )  # fmt: skip
    _compare(path.name, {piece: number for number, piece in enumerate(pieces)}, vocabulary, ledger)


def is_ranks(path: Path) -> bool:
    """Whether a file is tiktoken's: lines of base64 and a rank, whatever its name is."""
    with path.open("rb") as stream:
        first = stream.read(400).partition(b"\n")[0].split(b" ")
    try:
        return len(first) == 2 and first[1].strip().isdigit() and bool(base64.b64decode(first[0], validate=True))
    except binascii.Error:
        return False


def check_ranks(path: Path, vocabulary: Vocabulary, ledger: Ledger) -> None:
    """tiktoken's ranks are the ids of the same bytes in a byte-level tokenizer.json. Raises `MalformedError`."""
    if not vocabulary.byte_level:
        ledger.excluded.append(f"{path.name}: lists bytes, and tokenizer.json is not on bytes; not compared")
        return
    letters = byte_letters()
    copy: dict[str, Json] = {}
    for number, line in enumerate(text(path, max_bytes=MAX_FILE_BYTES).split("\n"), start=1):
        if not line.strip():
            continue
        token, _, rank = line.partition(" ")
        try:
            content = base64.b64decode(token, validate=True)
            copy["".join(letters[value] for value in content)] = int(rank)
        except ValueError as error:
            raise MalformedError(f"{path.name}: line {number} is {shown(line)}, wanted base64 and a rank") from error
    _compare(path.name, copy, vocabulary, ledger)


def _compare(name: str, copy: Mapping[str, Json], vocabulary: Vocabulary, ledger: Ledger) -> None:
    differing = [shown(piece) for piece, number in copy.items() if vocabulary.ids.get(piece) != number]
    missing = [shown(piece) for piece, _ in vocabulary.pieces if piece not in copy]
    unlike = differing + missing
    if unlike:
        ledger.problem(
            "variants-differ",
            f"{name} and tokenizer.json differ in {len(unlike)} tokens: {listed(unlike)}",
            remedy=f"make {name} from tokenizer.json, or remove it",
            path=name,
        )


def _merges(model: Mapping[str, Json]) -> Iterator[str]:
    rows = model.get("merges")
    for row in rows if isinstance(rows, list) else []:
        yield row if isinstance(row, str) else " ".join(map(str, row)) if isinstance(row, list) else ""
