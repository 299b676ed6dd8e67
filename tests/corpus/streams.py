"""Pickle programs put together opcode by opcode. The payload is always harmless: `true`, or a name without a call."""

from __future__ import annotations

import struct

TRUE = ("true",)
MAGIC = 0x1950A86A20F9469CFC6C
"""The number that torch files of before 1.6 begin with."""


def text(value: str) -> bytes:
    """A text as BINUNICODE (protocol 1)."""
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def short(value: str) -> bytes:
    """A text as SHORT_BINUNICODE (protocol 4)."""
    raw = value.encode()
    return b"\x8c" + bytes([len(raw)]) + raw


def arguments(texts: tuple[str, ...]) -> bytes:
    """A tuple of texts."""
    return b"(" + b"".join(map(text, texts)) + b"t"


def called(module: str, name: str, texts: tuple[str, ...] = TRUE) -> bytes:
    """module.name(*texts) by GLOBAL and REDUCE, left on the stack."""
    return f"c{module}\n{name}\n".encode() + arguments(texts) + b"R"


def stacked(module: str, name: str, texts: tuple[str, ...] = TRUE) -> bytes:
    """The same with the name taken from the stack (protocol 4)."""
    return short(module) + short(name) + b"\x93" + arguments(texts) + b"R"


def program(body: bytes, *, protocol: int | None = 2) -> bytes:
    """A whole pickle; `protocol` None writes no PROTO, as protocols 0 and 1 don't."""
    return (b"" if protocol is None else b"\x80" + bytes([protocol])) + body + b"."


def call(module: str, name: str, texts: tuple[str, ...] = TRUE) -> bytes:
    """A whole pickle of protocol 2 that calls module.name(*texts)."""
    return program(called(module, name, texts))


SYSTEM = call("posix", "system")


def old_torch(state: bytes, *, keys: bytes = b"]") -> bytes:
    """A torch file of before 1.6: magic number, protocol, machine, the state, the keys, then raw storages."""
    machine = b"}(" + text("protocol_version") + b"M\xe9\x03" + text("little_endian") + b"\x88u"
    number = b"\x8a\x0a" + MAGIC.to_bytes(10, "little")
    parts = [program(number), program(b"M\xe9\x03"), program(machine), state, program(keys)]
    return b"".join(parts)
