"""Finds JSON in the bytes of an HDF5 file, without the library that reads such files.

The values of attributes are stored whole and unpacked, in object headers or heaps, so that the description of a model
is found by looking for JSON objects anywhere. Format: HDF5 File Format Specification 3.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from modelctl.scan.content import GLANCE_BYTES, Content

MAGIC = b"\x89HDF\r\n\x1a\n"
MAX_OBJECT_BYTES = 16 << 20
MAX_CANDIDATES = 1_000_000
_BLOCK_BYTES = 4 << 20
_FIRST_BYTES = 4 << 10
_REACH_BYTES = 4 << 10
_CANDIDATE = re.compile(rb'\{[ \t\r\n]{0,1024}"|model_config\0')
_DECODER = json.JSONDecoder(strict=False)


def is_hdf5(content: Content, *, thorough: bool) -> bool:
    """Whether the signature is at the start, or behind a user block of 512 bytes or a power of two times that: up to
    2 KiB, or to 1 MiB where that is worth the reading."""
    if not thorough and MAGIC not in content.peek(0, GLANCE_BYTES):
        return False
    places = (0, *(512 << power for power in range(12 if thorough else 3)))
    return any(content.peek(place, len(MAGIC)) == MAGIC for place in places if place + len(MAGIC) <= content.size)


def json_objects(stream: BinaryIO) -> Iterator[dict[str, object] | bytes]:
    """Every outermost JSON object, and `b"model_config"` for each attribute of that name. Raises `ValueError` when
    there is too much that looks like JSON, or too long a piece of it."""
    start, candidates = 0, 0
    while True:
        stream.seek(start)
        block = stream.read(_BLOCK_BYTES + _REACH_BYTES)
        behind = start + _BLOCK_BYTES
        place = 0
        while (match := _CANDIDATE.search(block, place)) is not None and match.start() < _BLOCK_BYTES:
            place = match.start() + 1
            if block[match.start()] != ord("{"):
                yield b"model_config"
                continue
            candidates += 1
            if candidates > MAX_CANDIDATES:
                raise ValueError(f"an HDF5 file with over {MAX_CANDIDATES} places that look like JSON")
            found = _decode(stream, start + match.start())
            if found is None:
                continue
            yield found[0]
            place = match.start() + found[1]
            if place >= _BLOCK_BYTES:
                behind = start + place
                break
        if len(block) < _BLOCK_BYTES:
            return
        start = behind


def _decode(stream: BinaryIO, start: int) -> tuple[dict[str, object], int] | None:
    """The object that begins at `start`, and its length in bytes; None when there is none."""
    length = _FIRST_BYTES
    while True:
        stream.seek(start)
        raw = stream.read(length)
        text = raw.decode("latin-1")  # a character a byte: names of classes and modules are ASCII
        try:
            value, end = _DECODER.raw_decode(text)
        except json.JSONDecodeError as error:
            cut = error.msg.startswith("Unterminated") or error.pos >= len(text) - 8
            if not cut or len(raw) < length:
                return None
            if length >= MAX_OBJECT_BYTES:
                raise ValueError(f"an HDF5 file with JSON at byte {start} that is too long to be read") from error
            length *= 16
            continue
        except RecursionError as error:
            raise ValueError(f"an HDF5 file with JSON at byte {start} that is nested too deep") from error
        return (value, end) if isinstance(value, dict) else None
