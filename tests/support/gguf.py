"""GGUF files built byte by byte, so that a test may break any rule of the format."""

from __future__ import annotations

import struct
from collections.abc import Sequence

ALIGNMENT = 32


def text(value: str | bytes) -> bytes:
    """A text with its length before it."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def entry(key: str | bytes, kind: int, value: bytes) -> bytes:
    """A metadata entry of a type number and the bytes of its value."""
    return text(key) + struct.pack("<I", kind) + value


def array(key: str, element: int, count: int, values: bytes) -> bytes:
    """A metadata entry that is an array."""
    return entry(key, 9, struct.pack("<IQ", element, count) + values)


def tensor(name: str | bytes, shape: Sequence[int], kind: int, offset: int) -> bytes:
    """A tensor description."""
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def gguf(
    entries: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    data: bytes = b"",
    *,
    version: int = 3,
    counts: tuple[int, int] | None = None,
    alignment: int = ALIGNMENT,
    filler: bytes = b"\0",
) -> bytes:
    """A whole file; `counts` (tensors, entries) lies about what follows, `filler` is the padding before the data."""
    claimed = counts or (len(tensors), len(entries))
    head = b"GGUF" + struct.pack("<IQQ", version, *claimed) + b"".join(entries) + b"".join(tensors)
    return head + filler * (-len(head) % alignment if tensors else 0) + data
