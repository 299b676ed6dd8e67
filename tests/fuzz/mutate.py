"""Changes to bytes, drawn from a seeded generator: the same seed gives the same cases on every machine."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

INTERESTING = (
    0,
    1,
    2,
    7,
    8,
    127,
    128,
    255,
    1 << 15,
    1 << 16,
    100_000_001,
    (1 << 31) - 1,
    1 << 31,
    1 << 62,
    (1 << 64) - 1,
)
"""Numbers at which a reader's arithmetic or its limits change."""
WORDS = (
    b'"', b"{", b"}", b"[", b"]", b",", b":", b"-", b".", b"e9", b"0", b"-1", b"1e999", b"NaN", b"null", b"true", b"\\",
    b"\n", b"\\ud800", b"\\u0000", b"\xff", b"\xef\xbb\xbf", b"[" * 70, b'{"a":' * 70, b"18446744073709551616", b"../",
    b"/", b'"dtype":"BF16",', b'"shape":[],', b'"data_offsets":[0,0],', b'"__metadata__":{"a":1},', b'"weight_map":{},',
    b"posix\nsystem\n", b"cposix\nsystem\n", b"R", b"\x93", b"(", b"\x85", b".", b"\x80\x04", b"PK\1\2",
    b"PK\3\4", b"PK\5\6",
)  # fmt: skip
"""What means something to one of the readers."""

Change = Callable[[random.Random, bytearray, Sequence[bytes]], None]


def mutate(draw: random.Random, corpus: Sequence[bytes]) -> bytes:
    """One of the corpus with one to four changes."""
    content = bytearray(draw.choice(corpus))
    for _ in range(draw.choice((1, 1, 1, 2, 3, 4))):
        draw.choice(_CHANGES)(draw, content, corpus)
    return bytes(content)


def _place(draw: random.Random, content: bytearray) -> int:
    """Where to change: mostly near the start, where the headers are."""
    reach = len(content) if draw.random() < 0.4 else min(len(content), 512)
    return draw.randint(0, reach)


def _flip_bit(draw: random.Random, content: bytearray, _: Sequence[bytes]) -> None:
    if content:
        content[_place(draw, content) - 1] ^= 1 << draw.randrange(8)


def _set_byte(draw: random.Random, content: bytearray, _: Sequence[bytes]) -> None:
    if content:
        content[_place(draw, content) - 1] = draw.randrange(256)


def _set_number(draw: random.Random, content: bytearray, _: Sequence[bytes]) -> None:
    number, layout = draw.choice(INTERESTING), draw.choice(("<Q", "<I", "<H"))
    packed = struct.pack(layout, number & ((1 << 8 * struct.calcsize(layout)) - 1))
    place = draw.choice((0, 8, 16, _place(draw, content)))
    content[place : place + len(packed)] = packed


def _set_digits(draw: random.Random, content: bytearray, _: Sequence[bytes]) -> None:
    """Another number in place of one that is written in digits."""
    digits = [place for place in range(min(len(content), 4096)) if 48 <= content[place] <= 57]
    if digits:
        start = end = draw.choice(digits)
        while end < len(content) and 48 <= content[end] <= 57:
            end += 1
        content[start:end] = str(draw.choice((*INTERESTING, draw.randrange(1000)))).encode()


def _insert(draw: random.Random, content: bytearray, _: Sequence[bytes]) -> None:
    place = _place(draw, content)
    content[place:place] = draw.choice(WORDS) if draw.random() < 0.7 else draw.randbytes(draw.randint(1, 20))


def _delete(draw: random.Random, content: bytearray, _: Sequence[bytes]) -> None:
    place = _place(draw, content)
    del content[place : place + draw.choice((1, 1, 2, 8, 100))]


def _repeat(draw: random.Random, content: bytearray, _: Sequence[bytes]) -> None:
    place = _place(draw, content)
    part = content[place : place + draw.choice((1, 8, 40, 100))]
    content[place:place] = part * draw.choice((1, 1, 2, 50))


def _truncate(draw: random.Random, content: bytearray, _: Sequence[bytes]) -> None:
    del content[_place(draw, content) :]


def _splice(draw: random.Random, content: bytearray, corpus: Sequence[bytes]) -> None:
    other = draw.choice(corpus)
    place = draw.randint(0, len(other))
    content[_place(draw, content) :] = other[place:]


def _append(draw: random.Random, content: bytearray, corpus: Sequence[bytes]) -> None:
    content += draw.choice(corpus) if draw.random() < 0.3 else draw.randbytes(draw.randint(1, 30))


_CHANGES: tuple[Change, ...] = (
    _flip_bit, _flip_bit, _set_byte, _set_number, _set_digits, _set_digits, _insert, _insert, _delete, _repeat,
    _truncate, _splice, _append,
)  # fmt: skip
