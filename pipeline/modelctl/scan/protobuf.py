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
    """The fields of the message between two offsets; groups, which readers skip, are skipped with all that is in them.
    Raises `ValueError` when it is no message."""
    place = start
    groups: list[int] = []
    while place < end:
        stream.seek(place)
        key = _varint(stream)
        number, wire = key >> 3, key & 7
        if not 0 < number < _MAX_NUMBER:
            raise ValueError("a field without a number")
        found = Field(number=number, start=0, end=0)
        match wire:
            case 0:
                found = Field(number=number, start=0, end=0, value=_varint(stream))
                place = stream.tell()
            case 1 | 5:
                place = stream.tell() + (8 if wire == 1 else 4)
            case 2:
                length = _varint(stream)
                found = Field(number=number, start=stream.tell(), end=stream.tell() + length)
                place = found.end
            case 3:
                groups.append(number)
                place = stream.tell()
                continue
            case 4:
                if not groups or groups.pop() != number:
                    raise ValueError("the end of a group that has not begun")
                place = stream.tell()
                continue
            case _:
                raise ValueError(f"wire type {wire} is unknown")
        if place > end:
            raise ValueError("a field that is longer than its message")
        if not groups:
            yield found
    if place != end or groups:
        raise ValueError("a field that is longer than its message")


def text(stream: BinaryIO, field: Field) -> str:
    """A text field, at most its first 4096 bytes; what is no UTF-8 is escaped."""
    stream.seek(field.start)
    return stream.read(min(MAX_TEXT_BYTES, field.end - field.start)).decode("utf-8", "backslashreplace")


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
