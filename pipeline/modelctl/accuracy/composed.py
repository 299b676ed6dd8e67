"""The second part of the shipped calibration text: short pieces composed from patterns written for this program.

It is the same to the byte everywhere: a word or number is chosen by the checksum of its place, never by a random
generator. Sums, shares and dates in it are right. It is no literature: it brings the tokens of many languages, of code,
tables and numbers in ever new neighbourhoods, where the written sample is too short for the samples asked for.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

CHARACTERS = 400_000
"""So many at least: 256 samples of 512 tokens without a repetition, for tokenizers of three characters a token too."""

_WORDS = Path(__file__).parent / "data" / "words.txt"


class _Draw:
    """Words and numbers of one piece, by the checksum of their place in it."""

    def __init__(self, piece: int) -> None:
        self._piece = piece
        self._place = 0

    def number(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        self._place += 1
        return low + zlib.crc32(f"{self._piece}/{self._place}".encode()) % (high - low + 1)

    def word(self, kind: str) -> str:
        """One of the words of a kind."""
        words = _words()[kind]
        return words[self.number(0, len(words) - 1)]


@functools.cache
def _words() -> Mapping[str, Sequence[str]]:
    """The words of each kind; a line of the file is `kind: word | word`."""
    lines = _WORDS.read_text(encoding="utf-8").splitlines()
    return {kind: words.split(" | ") for kind, _, words in (line.partition(": ") for line in lines)}


@functools.cache
def composed_text() -> str:
    """All pieces, apart by an empty line."""
    pieces: list[str] = []
    length = 0
    while length < CHARACTERS:
        number = len(pieces)
        piece = _PATTERNS[number % len(_PATTERNS)](_Draw(number))
        pieces.append(piece)
        length += len(piece)
    return "\n\n".join(pieces) + "\n"


def _chinese_story(draw: _Draw) -> str:
    sentences = [
        f"{draw.word('zh_when')}，{draw.word('zh_who')}{draw.word('zh_where')}{draw.word('zh_did')}，{draw.word('zh_then')}。",
        f"{draw.word('zh_why')}，{draw.word('zh_who')}{draw.word('zh_did')}，{draw.word('zh_then')}。",
        f"{draw.word('zh_who')}说：“{draw.word('zh_why')}，{draw.word('zh_then')}。”",
        f"一共花了{draw.number(2, 900)}元，用了{draw.number(2, 59)}分钟。",
    ]
    return "".join(sentences)


def _chinese_sum(draw: _Draw) -> str:
    boxes, each, given = draw.number(3, 48), draw.number(6, 90), draw.number(1, 17)
    thing, total = draw.word("zh_thing"), boxes * each
    return (
        f"问：仓库里有{boxes}箱{thing}，每箱{each}个，送走{given}个以后还剩多少个？\n"
        f"答：{boxes} × {each} = {total}，{total} − {given} = {total - given}，所以还剩{total - given}个。"
    )


def _chinese_chat(draw: _Draw) -> str:
    return (
        f"用户：{draw.word('zh_why')}，{draw.word('zh_who')}应该怎么办？\n"
        f"助手：可以先看看{draw.word('zh_where')[1:]}有没有人帮忙。{draw.word('zh_when')}也有人问过类似的问题，当时{draw.word('zh_who')}"
        f"{draw.word('zh_did')}，{draw.word('zh_then')}。如果还是不行，请在{draw.number(2, 28)}日之前再联系我。"
    )


def _english_story(draw: _Draw) -> str:
    return " ".join(f"{draw.word('en_who')} {draw.word('en_did')}, {draw.word('en_then')}." for _ in range(3))


def _english_sum(draw: _Draw) -> str:
    first, second, factor, thing = (
        draw.number(12, 980),
        draw.number(12, 980),
        draw.number(2, 19),
        draw.word("en_thing"),
    )
    share = round(100 * first / (first + second), 1)
    return (
        f"Question: One shelf holds {first} {thing} and another holds {second}. How many are there, and which share is "
        f"on the first?\nAnswer: {first} + {second} = {first + second}, and {first} / {first + second} is {share} "
        f"percent. With {factor} times as many there would be {factor * (first + second)}."
    )


def _european(draw: _Draw) -> str:
    languages = [draw.word(kind) for kind in ("es", "de", "fr", "ru")]
    turn = draw.number(0, 3)
    return ". ".join(languages[turn:] + languages[:turn]) + "."


def _asian(draw: _Draw) -> str:
    return f"{draw.word('ja')}。{draw.word('ko')}. {draw.word('ja')}。{draw.word('ar')}. {draw.word('zh_then')}。"


def _record(draw: _Draw) -> str:
    values = ", ".join(f'"{draw.word("field")}_{index}": {draw.number(-9999, 9999) / 100}' for index in range(3))
    day = f"20{draw.number(10, 29)}-{draw.number(1, 12):02}-{draw.number(1, 28):02}"
    return f'{{"id": {draw.number(1, 99999)}, "city": "{draw.word("city")}", "date": "{day}", {values}, "ok": true}}'


def _table(draw: _Draw) -> str:
    rows = [(draw.word("city"), draw.number(1, 999), draw.number(1, 999)) for _ in range(3)]
    lines = [f"| {name} | {first} | {second} | {first + second} |" for name, first, second in rows]
    head = f"| city | {draw.word('field')} | {draw.word('field')} | sum |\n|---|---:|---:|---:|"
    return "\n".join([head, *lines])


def _program(draw: _Draw) -> str:
    name, limit, step = draw.word("field"), draw.number(2, 400), draw.number(2, 9)
    return (
        f"def {name}_{draw.number(1, 99)}(values: list[int], limit: int = {limit}) -> int:\n"
        f'    """The sum of every value under the limit, in steps of {step}."""\n'
        f"    total = 0\n    for value in values[::{step}]:\n        if value < limit:\n            total += value\n"
        f"    return total"
    )


def _query(draw: _Draw) -> str:
    table, field, other = draw.word("table"), draw.word("field"), draw.word("field")
    low, high = draw.number(1, 50), draw.number(51, 900)
    least = draw.number(2, 30)
    return "\n".join(
        (
            f"SELECT {other}, AVG({field})",
            f"FROM {table}",
            f"WHERE {field} BETWEEN {low} AND {high}",
            f"GROUP BY {other} HAVING COUNT(*) >= {least} ORDER BY 2 DESC;",
        )
    )


def _log(draw: _Draw) -> str:
    lines = [
        f"20{draw.number(20, 29)}-{draw.number(1, 12):02}-{draw.number(1, 28):02}T{draw.number(0, 23):02}:"
        f"{draw.number(0, 59):02}:{draw.number(0, 59):02}Z {draw.word('level')} {draw.word('table')}"
        f"[{draw.number(2, 9999)}]: {draw.word('event')} ({draw.number(1, 5000)} ms)"
        for _ in range(3)
    ]
    return "\n".join(lines)


_PATTERNS: tuple[Callable[[_Draw], str], ...] = (
    _chinese_story, _english_story, _chinese_sum, _european, _record, _chinese_chat, _english_sum, _table, _asian,
    _chinese_story, _program, _query, _english_story, _log,
)  # fmt: skip
