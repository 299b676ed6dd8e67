"""The header of NumPy's .npy format, read strictly: does an array hold objects, and where do its bytes end?

NumPy evaluates the header as a Python literal, of 10,000 characters at most, and loads what follows as a pickle when
the type holds objects. Format: numpy.lib.format, versions 1.0 to 3.0.
"""

from __future__ import annotations

import ast
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from modelctl.scan.values import simple_type

MAGIC = b"\x93NUMPY"
MAX_HEADER_BYTES = 10_000
"""NumPy's own limit."""
_MAX_NESTING = 40


@dataclass(frozen=True, kw_only=True)
class ArrayHeader:
    """`objects`: a pickle follows at `data`; else the raw array does, to `end`."""

    objects: bool
    data: int
    end: int


def read_header(stream: BinaryIO) -> ArrayHeader | None:
    """The header of an array that begins where the stream stands; None when there is no array. Raises `ValueError`
    for a header that NumPy may read in another way."""
    start = stream.tell()
    head = stream.read(12)
    if not head.startswith(MAGIC):
        stream.seek(start)
        return None
    if len(head) < 12 or head[6] not in (1, 2, 3):
        raise ValueError("a NumPy array of an unknown version")
    width = 2 if head[6] == 1 else 4
    length = int.from_bytes(head[8 : 8 + width], "little")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"a NumPy array with a header of {length} bytes; NumPy takes {MAX_HEADER_BYTES}")
    stream.seek(start + 8 + width)
    raw = stream.read(length)
    if len(raw) != length:
        raise ValueError("a NumPy array whose header is cut off")
    header = _literal(raw.decode("utf-8" if head[6] == 3 else "latin-1"))
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise ValueError("a NumPy array whose header has other keys than descr, fortran_order and shape")
    shape = header["shape"]
    if not isinstance(shape, tuple) or not all(type(item) is int and item >= 0 for item in shape):
        raise ValueError("a NumPy array whose shape is none")
    size, objects = _type(header["descr"])
    data = stream.tell()
    end = data + size * math.prod(shape)
    if not objects and end > stream.seek(0, io.SEEK_END):
        raise ValueError("a NumPy array whose numbers are cut off")
    stream.seek(data)
    return ArrayHeader(objects=objects, data=data, end=end)


def _literal(text: str) -> object:
    depth = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if depth > _MAX_NESTING:
            raise ValueError("a NumPy array whose header is nested too deep")
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise ValueError("a NumPy array whose header is no plain literal") from error


def _type(description: object) -> tuple[int, bool]:
    """Bytes of an element, and whether it holds objects."""
    if isinstance(description, str):
        found = simple_type(description)
        if found is None and description[1:2] in ("M", "m"):
            found = simple_type(description.partition("[")[0])
        if found is None:
            raise ValueError(f"a NumPy array of the unknown type {description[:80]!r}")
        return found.size, found.objects
    if isinstance(description, tuple) and len(description) == 2:  # a subarray: its type and its shape
        size, objects = _type(description[0])
        shape = description[1] if isinstance(description[1], tuple) else (description[1],)
        if not all(type(item) is int and item >= 0 for item in shape):
            raise ValueError("a NumPy array of a type without a shape")
        return size * math.prod(shape), objects
    if isinstance(description, list):
        parts = list(_fields(description))
        return sum(size for size, _ in parts), any(objects for _, objects in parts)
    raise ValueError("a NumPy array of an unknown type")


def _fields(description: list[object]) -> Iterator[tuple[int, bool]]:
    for field in description:
        if not isinstance(field, tuple) or len(field) not in (2, 3):
            raise ValueError("a NumPy array of a type with an unknown field")
        yield _type(field[1] if len(field) == 2 else (field[1], field[2]))
