"""Reads a model's JSON and text files in the child, and hands on a value only as what it was checked to be.

Everything else is a `MalformedError` that words what was found. The child's address space is limited, so a file that
unfolds to gigabytes ends as one too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from modelctl.errors import InputError
from modelctl.model.strict_json import Json, read_object
from modelctl.tokenization.report import shown

MAX_FILE_BYTES = 256 << 20
"""Largest tokenizer file that is read; the largest known real ones hold about 40 MB."""

MAX_TEMPLATE_BYTES = 1 << 20
"""Largest chat template; the largest known real ones hold about 20 kB."""


class MalformedError(Exception):
    """A file is not what it should be. `str()` words what was found."""


def json_object(folder: Path, name: str) -> Mapping[str, Json]:
    """The JSON object in a file of the model. Raises `MalformedError`."""
    try:
        return read_object(folder / name, origin=name, max_bytes=MAX_FILE_BYTES)
    except InputError as error:
        raise MalformedError(shown_plain(error.message)) from error
    except MemoryError as error:
        raise MalformedError(f"{name}: unfolds to more memory than the check allows") from error


def text(path: Path, *, max_bytes: int = MAX_TEMPLATE_BYTES) -> str:
    """A UTF-8 text, with line ends as they are. Raises `MalformedError`."""
    try:
        with path.open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except OSError as error:
        raise MalformedError(f"{path.name}: cannot be read: {error.strerror}") from error
    if len(content) > max_bytes:
        raise MalformedError(f"{path.name}: larger than {max_bytes >> 10} KiB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError(f"{path.name}: not UTF-8 at byte {error.start}") from error


def optional_object(members: Mapping[str, Json], key: str) -> Mapping[str, Json] | None:
    """The object at `key`, or None when it is absent or null. Raises `MalformedError`."""
    value = members.get(key)
    if value is None or isinstance(value, Mapping):
        return value
    raise MalformedError(f"'{key}' is a {type(value).__name__}, wanted an object")


def objects(members: Mapping[str, Json], key: str) -> Iterator[Mapping[str, Json]]:
    """The objects of the list at `key`; nothing when it is absent or null. Raises `MalformedError`."""
    value = members.get(key)
    if value is None:
        return
    if not isinstance(value, list):
        raise MalformedError(f"'{key}' is a {type(value).__name__}, wanted a list")
    for item in value:
        if not isinstance(item, Mapping):
            raise MalformedError(f"'{key}' holds {shown(item)}, wanted objects")
        yield item


def whole_number(value: Json, *, where: str) -> int:
    """A whole number. Raises `MalformedError` for everything else, booleans and fractions included."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise MalformedError(f"{where} is {shown(value)}, wanted a whole number")


def word(value: Json, *, where: str) -> str:
    """A text. Raises `MalformedError`."""
    if isinstance(value, str):
        return value
    raise MalformedError(f"{where} is {shown(value)}, wanted a text")


def shown_plain(message: str) -> str:
    """A message that may quote the model: unprintable characters escaped, 400 characters at most."""
    plain = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in message[:1000])
    return plain if len(plain) <= 400 else plain[:399] + "…"
