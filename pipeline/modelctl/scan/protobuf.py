"""Goes through the fields of a Protocol Buffers message in a stream, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

MAX_TEXT_BYTES = 4096
_MAX_NUMBER = 1 << 29


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field. For a text or a message, `start` and `end` say where it lies in the stream; else both are 0."""

    number: int
    start: int
    end: int
    value: int = 0

    @property
    def is_message(self) -> bool:
        """Whether it has a length: a text, bytes or a message."""
        return self.end > 0


def fields(stream: BinaryIO, start: int, end: int) -> Iterator[Field]:
    """The fields of the message between two offsets. Raises `ValueError` when it is none."""
    place = start
    while place < end:
        stream.seek(place)
        key = _varint(stream)
        number, wire = key >> 3, key & 7
        if not 0 < number < _MAX_NUMBER:
            raise ValueError("a field without a number")
        if wire == 0:
            value = _varint(stream)
            place = stream.tell()
            yield Field(number=number, start=0, end=0, value=value)
        elif wire in (1, 5):
            place = stream.tell() + (8 if wire == 1 else 4)
            yield Field(number=number, start=0, end=0)
        elif wire == 2:
            length = _varint(stream)
            here = stream.tell()
            place = here + length
            if place > end:
                raise ValueError("a field that is longer than its message")
            yield Field(number=number, start=here, end=place)
        else:
            raise ValueError(f"wire type {wire} is unknown")
    if place != end:
        raise ValueError("a field that is longer than its message")


def text(stream: BinaryIO, field: Field) -> str:
    """A text field, at most its first 4096 bytes. Raises `ValueError` when it is none."""
    stream.seek(field.start)
    return stream.read(min(MAX_TEXT_BYTES, field.end - field.start)).decode("utf-8")


def _varint(stream: BinaryIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            raise ValueError("a number that is cut off")
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return value
    raise ValueError("a number of over ten bytes")
