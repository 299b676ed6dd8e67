"""The metadata of a GGUF file, one entry at a time, in memory that follows what is read and never what is claimed.

Rules of ggml's description of the format and of the reference reader (llama.cpp): thirteen types, keys unique and of at
most 65,535 ASCII bytes, booleans 0 or 1, text in UTF-8. Arrays of arrays are in the description, but the reference
refuses them, and so does this reader. What keeps one from reading on raises; what does not is noted as a problem.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

MAGIC = b"GGUF"
VERSIONS = (2, 3)
"""1 had 32-bit counts and no reader takes it any more; 3 only added big-endian files to 2."""

MAX_ENTRIES = 100_000
MAX_TENSORS = 100_000
MAX_KEY_BYTES = 65_535
MAX_STRING_BYTES = 16 << 20
"""Of one text: the reference takes 1 GiB, the longest seen are chat templates and grammars of well under 1 MiB."""
MAX_METADATA_BYTES = 64 << 20
"""Of all entries; the vocabularies of known models take up to about 20 MiB."""
MAX_TEXTS = 4_000_000
"""In all: each costs a microsecond, and the largest known vocabulary with its merges has under a million."""
MAX_PROBLEMS = 50
_CHUNK = 1 << 20
_ENTRY_BYTES, _TENSOR_BYTES = 8 + 1 + 4 + 1, 8 + 4 + 4 + 8
"""The least that one entry and one tensor description take."""

_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TYPE_NAMES = ("u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64")

Value = str | int | float | bool


class BrokenGgufError(ValueError):
    """Nothing after this place can be read; the message is a problem in the words of `GgufHeader`."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The fixed part of a header."""

    version: int
    tensors: int
    entries: int


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One metadata entry. `value` is None for an array, and for a text that was not asked for."""

    key: str
    type: str
    """`u32`, `str`, … or, for an array, `str[49152]`."""
    value: Value | None


class Problems(list[str]):
    """Problems in the order they were met, the first fifty in full."""

    def add(self, kind: str, detail: str) -> None:
        """Note one, as `kind: detail`."""
        if len(self) < MAX_PROBLEMS:
            self.append(f"{kind}: {detail}")
        elif len(self) == MAX_PROBLEMS:
            self.append(f"more: over {MAX_PROBLEMS} problems, the rest is not listed")


class Source:
    """A stream that knows its size, so that no length is believed before it fits."""

    def __init__(self, stream: BinaryIO) -> None:
        self.size = stream.seek(0, 2)
        self.position = stream.seek(0)
        self.texts = 0
        self._stream = stream

    def take(self, size: int, what: str) -> bytes:
        """The next bytes. Raises `BrokenGgufError` when the file has fewer."""
        if size > self.size - self.position:
            raise BrokenGgufError(
                f"truncated: {what} needs {size} bytes at {self.position}, the GGUF file has {self.size}"
            )
        content = self._stream.read(size)
        self.position += len(content)
        if len(content) != size:
            raise BrokenGgufError(f"truncated: the GGUF file became shorter while {what} was read")
        return content

    def number(self, layout: str, what: str) -> int:
        """One little-endian number."""
        return int(struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout), what))[0])

    def chunks(self, size: int, what: str) -> Iterator[bytes]:
        """The next bytes, a mebibyte at a time."""
        if size > self.size - self.position:
            self.take(size, what)
        while size:
            part = self.take(min(size, _CHUNK), what)
            size -= len(part)
            yield part

    def is_zero(self, begin: int, end: int) -> bool:
        """Whether the bytes from `begin` up to `end` are all zero; the stream stands at `end` afterwards."""
        self.position = self._stream.seek(begin)
        return not any(part.strip(b"\0") for part in self.chunks(end - begin, "padding")) if end > begin else True


def read_counts(source: Source) -> Counts:
    """Magic, version and counts. Raises `BrokenGgufError`."""
    magic = source.take(4, "the magic")
    if magic != MAGIC:
        raise BrokenGgufError(f"magic: found {magic!r}, wanted {MAGIC!r} of a GGUF file")
    version = source.number("I", "the version")
    if version not in VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        hint = f" ({swapped} in a big-endian file, which is not read)" if swapped in VERSIONS else ""
        raise BrokenGgufError(f"version: GGUF version {version}{hint} is unknown, wanted 2 or 3")
    tensors = source.number("Q", "the tensor count")
    entries = source.number("Q", "the metadata count")
    left = source.size - source.position
    for count, most, least, what in (
        (entries, MAX_ENTRIES, _ENTRY_BYTES, "metadata entries"),
        (tensors, MAX_TENSORS, _TENSOR_BYTES, "tensors"),
    ):
        if count > most or count * least > left:
            raise BrokenGgufError(
                f"counts: a GGUF header of {count} {what}; {left} bytes follow, and {most} is the most"
            )
    return Counts(version=version, tensors=tensors, entries=entries)


def read_entries(
    source: Source, count: int, problems: Problems, *, keep_text: Callable[[str], bool] = lambda _: True
) -> Iterator[Entry]:
    """The entries, in file order. `keep_text` says which texts are returned; all others are only judged.

    Raises `BrokenGgufError`.
    """
    begin = source.position
    seen: set[bytes] = set()
    for number in range(count):
        key = _key(source, number, seen, problems)
        kind = source.number("I", f"the type of the metadata entry {key[:80]!a}")
        yield _entry(source, key, kind, problems, keep_text)
        if source.position - begin > MAX_METADATA_BYTES:
            raise BrokenGgufError(f"metadata: over {MAX_METADATA_BYTES} bytes")


def _key(source: Source, number: int, seen: set[bytes], problems: Problems) -> str:
    length = source.number("Q", f"the key of metadata entry {number}")
    if length > MAX_KEY_BYTES:
        raise BrokenGgufError(f"metadata: key {number} has {length} bytes, the most is {MAX_KEY_BYTES}")
    raw = source.take(length, f"the key of metadata entry {number}")
    key = raw.decode("utf-8", "backslashreplace")
    if not raw:
        problems.add("metadata", f"key {number} is empty")
    elif not raw.isascii() or not key.isprintable():
        problems.add("metadata", f"key {key[:80]!a} is not printable ASCII")
    digest = hashlib.sha256(raw).digest()
    if digest in seen:
        problems.add("duplicate-key", f"the metadata key {key[:80]!a} appears twice")
    seen.add(digest)
    return key


def _entry(source: Source, key: str, kind: int, problems: Problems, keep_text: Callable[[str], bool]) -> Entry:
    where = f"the metadata entry {key[:80]!a}"
    if kind == _STRING:
        text = _text(source, where, problems)
        return Entry(key=key, type="str", value=text if keep_text(key) else None)
    if kind == _ARRAY:
        element = source.number("I", where)
        length = source.number("Q", where)
        _array(source, where, element, length, problems)
        return Entry(key=key, type=f"{TYPE_NAMES[element]}[{length}]", value=None)
    if kind not in _NUMBERS:
        raise BrokenGgufError(f"metadata: {where} has the unknown type {kind}")
    layout = "<" + ("B" if kind == _BOOL else _NUMBERS[kind])
    value: int | float = struct.unpack(layout, source.take(struct.calcsize(layout), where))[0]
    if kind == _BOOL:
        if value not in (0, 1):
            problems.add("metadata", f"{where} is a boolean of {value}, wanted 0 or 1")
        return Entry(key=key, type="bool", value=bool(value))
    return Entry(key=key, type=TYPE_NAMES[kind], value=value)


def _array(source: Source, where: str, element: int, length: int, problems: Problems) -> None:
    if element == _ARRAY:
        raise BrokenGgufError(f"metadata: {where} is an array of arrays, which the reference reader refuses")
    if element == _STRING:
        left = source.size - source.position
        if length > MAX_TEXTS:
            raise BrokenGgufError(f"metadata: {where} is an array of {length} texts, the most is {MAX_TEXTS}")
        if length * 8 > left:
            raise BrokenGgufError(f"truncated: {where} has {length} texts, but {left} bytes follow in the GGUF file")
        end = source.position + MAX_METADATA_BYTES
        for _ in range(length):
            _text(source, where, problems)
            if source.position > end:
                raise BrokenGgufError(f"metadata: {where} takes over {MAX_METADATA_BYTES} bytes")
        return
    if element not in _NUMBERS:
        raise BrokenGgufError(f"metadata: {where} is an array of the unknown type {element}")
    size = length * struct.calcsize("<" + _NUMBERS[element])
    if size > MAX_METADATA_BYTES:
        raise BrokenGgufError(f"metadata: {where} is an array of {size} bytes, the most is {MAX_METADATA_BYTES}")
    wrong = False
    for part in source.chunks(size, where):
        wrong = wrong or (element == _BOOL and bool(part.translate(None, b"\0\1")))
    if wrong:
        problems.add("metadata", f"{where} has booleans that are neither 0 nor 1")


def _text(source: Source, where: str, problems: Problems) -> str:
    length = source.number("Q", where)
    if length > MAX_STRING_BYTES:
        raise BrokenGgufError(f"metadata: {where} has a text of {length} bytes, the most is {MAX_STRING_BYTES}")
    source.texts += 1
    if source.texts > MAX_TEXTS:
        raise BrokenGgufError(f"metadata: over {MAX_TEXTS} texts")
    raw = source.take(length, where)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        problems.add("metadata", f"{where} has a text that is not UTF-8 at its byte {error.start}")
        return raw.decode("utf-8", "backslashreplace")
