"""The chat templates in a GGUF file's metadata, read in bounded memory; the tensors are not touched."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

MAX_ENTRIES = 100_000
MAX_KEY_BYTES = 64 << 10
MAX_TEMPLATE_BYTES = 4 << 20
MAX_ELEMENTS = 10_000_000
_STRING, _ARRAY = 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def chat_templates(stream: BinaryIO) -> Iterator[tuple[str, str]]:
    """(key, text) of every metadata string whose key names a chat template. Raises `ValueError` for a broken file."""
    if stream.read(4) != b"GGUF":
        raise ValueError("no GGUF file")
    version, _, entries = struct.unpack("<IQQ", _exactly(stream, 20))
    if version not in (2, 3):
        raise ValueError(f"GGUF version {version} is unknown")
    if entries > MAX_ENTRIES:
        raise ValueError(f"{entries} metadata entries")
    for _ in range(entries):
        length = _number(stream, "<Q")
        if length > MAX_KEY_BYTES:
            raise ValueError(f"a metadata key of {length} bytes")
        key = _exactly(stream, length).decode("utf-8", "backslashreplace")
        kind = _number(stream, "<I")
        if kind == _STRING and "chat_template" in key:
            length = _number(stream, "<Q")
            if length > MAX_TEMPLATE_BYTES:
                raise ValueError(f"{key}: a template of {length} bytes")
            yield key, _exactly(stream, length).decode("utf-8", "backslashreplace")
        else:
            _skip_value(stream, kind, depth=0)


def _skip_value(stream: BinaryIO, kind: int, *, depth: int) -> None:
    if kind == _STRING:
        _skip(stream, _number(stream, "<Q"))
    elif kind == _ARRAY:
        element, count = _number(stream, "<I"), _number(stream, "<Q")
        if count > MAX_ELEMENTS or depth > 3:
            raise ValueError(f"a metadata array of {count} elements, nested {depth} deep")
        if element in _SIZES:
            _skip(stream, _SIZES[element] * count)
        else:
            for _ in range(count):
                _skip_value(stream, element, depth=depth + 1)
    elif kind in _SIZES:
        _skip(stream, _SIZES[kind])
    else:
        raise ValueError(f"metadata of unknown type {kind}")


def _number(stream: BinaryIO, layout: str) -> int:
    return int(struct.unpack(layout, _exactly(stream, struct.calcsize(layout)))[0])


def _exactly(stream: BinaryIO, size: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise ValueError("the file ends inside its metadata")
    return content


def _skip(stream: BinaryIO, size: int) -> None:
    if not size:
        return
    if size >= 1 << 62:
        raise ValueError(f"a metadata value of {size} bytes")
    stream.seek(size - 1, 1)
    _exactly(stream, 1)  # seeking beyond the end of a file is no error
