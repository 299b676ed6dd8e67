"""Reads the arguments of pickle opcodes from a stream, in bounded memory."""

from __future__ import annotations

import codecs
import io
import pickletools
from typing import BinaryIO

MAX_TEXT_BYTES = 64 << 10
"""Longest argument that is looked at; longer ones are skipped (no importable name is as long)."""
MAX_NAME_CHARACTERS = 512
_MAX_INTEGER_BYTES = 16

_LENGTHS = {
    pickletools.TAKEN_FROM_ARGUMENT1: (1, False),
    pickletools.TAKEN_FROM_ARGUMENT4: (4, True),
    pickletools.TAKEN_FROM_ARGUMENT4U: (4, False),
    pickletools.TAKEN_FROM_ARGUMENT8U: (8, False),
}


class CutOffError(ValueError):
    """More bytes are needed than there are."""


class LimitError(ValueError):
    """A limit of this reader, at which Python's own would go on."""


class Arguments:
    """The stream of a pickle. Every method raises `ValueError` for what Python's own machine would fail at too."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        here = stream.tell()
        self._size = stream.seek(0, io.SEEK_END)
        stream.seek(here)

    def of(self, opcode: pickletools.OpcodeInfo) -> bytes:
        """The raw argument of an opcode; empty when it has none or is too long to be looked at."""
        argument = opcode.arg
        if argument is None:
            return b""
        if argument.n >= 0:
            return self.exactly(argument.n)
        if argument.n == pickletools.UP_TO_NEWLINE:
            return self._raw_line()
        width, signed = _LENGTHS[argument.n]
        length = int.from_bytes(self.exactly(width), "little", signed=signed)
        if length < 0:
            raise ValueError("a negative length")
        if length <= MAX_TEXT_BYTES:
            return self.exactly(length)
        self.skip(length)
        return b""

    def exactly(self, size: int) -> bytes:
        """So many bytes."""
        content = self._stream.read(size)
        if len(content) != size:
            raise CutOffError("it is cut off")
        return content

    def skip(self, size: int) -> None:
        """Go on behind so many bytes."""
        if size > self._size - self._stream.tell():
            raise CutOffError("it is cut off")
        self._stream.seek(size, io.SEEK_CUR)

    def line(self) -> str:
        """A name that ends with its line."""
        return self._raw_line().decode("utf-8", "surrogateescape")

    def _raw_line(self) -> bytes:
        """A line without its end; empty when it is too long to be looked at."""
        line = part = self._stream.readline(MAX_TEXT_BYTES)
        while not part.endswith(b"\n"):
            if len(part) < MAX_TEXT_BYTES:
                raise CutOffError("a line without an end")
            part = self._stream.readline(MAX_TEXT_BYTES)
        return line[:-1] if part is line else b""


def text(name: str, argument: bytes) -> str | None:
    """The text of a string opcode; None when it is too long for a name, or empty."""
    if not argument:
        return None
    if name == "STRING":
        if len(argument) < 2 or argument[:1] not in (b'"', b"'") or argument[-1:] != argument[:1]:
            raise ValueError("a string without quotes")
        decoded = codecs.escape_decode(argument[1:-1])[0].decode("latin-1")
    elif name == "UNICODE":
        decoded = argument.decode("raw_unicode_escape")
    else:
        decoded = argument.decode("utf-8", "surrogatepass") if "UNICODE" in name else argument.decode("latin-1")
    return decoded if 0 < len(decoded) <= MAX_NAME_CHARACTERS else None


def memo_number(name: str, argument: bytes) -> int:
    """The number that PUT, GET and their kin name."""
    return int(argument) if name in ("PUT", "GET") else int.from_bytes(argument, "little")


def integer(name: str, argument: bytes) -> int | None:
    """The value of an integer opcode; None for one that is written in a way no number of interest is."""
    if name in ("BININT1", "BININT2"):
        return int.from_bytes(argument, "little")
    if name in ("INT", "LONG"):
        digits = argument.removesuffix(b"L")
        return int(digits) if len(digits) <= 24 and digits.removeprefix(b"-").isdigit() else None
    return int.from_bytes(argument, "little", signed=True) if len(argument) <= _MAX_INTEGER_BYTES else None
