"""JSON that a stranger wrote: bounded in size and depth, and refused where two readers could see two different things.

A duplicate key, a lone surrogate, a byte-order mark or nesting over 64 levels is an `InputError`, never a surprise
further on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from modelctl.errors import InputError

Json = Mapping[str, "Json"] | list["Json"] | str | int | float | bool | None

MAX_DEPTH = 64
MAX_FILE_BYTES = 16 << 20
MAX_VALUES = 4_000_000
"""Values in one document: a parsed one takes about 100 bytes, so a small file cannot fill the memory."""
_REMEDY = "restore the file from its upstream"


class _RefusedError(ValueError):
    """Why a document is refused, in words."""


def read_object(path: Path, *, origin: str, max_bytes: int = MAX_FILE_BYTES) -> dict[str, Json]:
    """The JSON object in a file; `origin` names it in errors. Raises `InputError`."""
    return parse_object(_read(path, origin, max_bytes), origin=origin)


def read_value(path: Path, *, origin: str, max_bytes: int = MAX_FILE_BYTES) -> Json:
    """The same for a file whose JSON may be anything, an array too."""
    return parse_value(_read(path, origin, max_bytes), origin=origin)


def _read(path: Path, origin: str, max_bytes: int) -> bytes:
    try:
        with path.open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except OSError as error:
        raise InputError(f"{origin}: {error.strerror}", remedy=_REMEDY) from error
    if len(content) > max_bytes:
        raise InputError(f"{origin}: larger than {max_bytes} bytes", remedy="is this the right file?")
    return content


def parse_object(content: bytes, *, origin: str, naturals_only: bool = False) -> dict[str, Json]:
    """The JSON object in `content`. NaN and Infinity pass, since Python programs write them.

    `naturals_only` refuses every number that is not a plain 0, 1, 2, … Raises `InputError` that names `origin`.
    """
    value = parse_value(content, origin=origin, naturals_only=naturals_only)
    if not isinstance(value, dict):
        raise InputError(f"{origin}: found a JSON {_name(value)}, wanted an object", remedy=_REMEDY)
    return value


def parse_value(content: bytes, *, origin: str, naturals_only: bool = False) -> Json:
    """`parse_object` for JSON of any type."""
    try:
        if sum(map(content.count, (b",", b"[", b"{"))) > MAX_VALUES:
            raise _RefusedError(f"more than {MAX_VALUES} values")
        value: Json = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_no_duplicates,
            parse_constant=_refuse_number if naturals_only else float,
            parse_float=_refuse_number if naturals_only else float,
            parse_int=_natural if naturals_only else int,
        )
        _walk(value)
    except UnicodeDecodeError as error:
        raise InputError(f"{origin}: not UTF-8 at byte {error.start}", remedy=_REMEDY) from error
    except RecursionError as error:
        raise InputError(f"{origin}: nested deeper than {MAX_DEPTH} levels", remedy=_REMEDY) from error
    except ValueError as error:
        raise InputError(f"{origin}: not JSON that every reader understands alike: {error}", remedy=_REMEDY) from error
    return value


def _no_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"the key {key[:80]!a} appears twice in one object")
            seen.add(key)
    return found


def _refuse_number(word: str) -> float:
    raise _RefusedError(f"the number {word[:20]} is not 0, 1, 2, …")


def _natural(word: str) -> int:
    if word.startswith("-"):
        _refuse_number(word)
    return int(word)


def _walk(value: Json) -> None:
    """Bound the depth and refuse text that cannot be written as UTF-8; iterative, so that depth costs no stack."""
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Json] = []
        for item in level:
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, Mapping):
                for key in item:
                    _check_text(key)
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return
        level = below
    raise _RefusedError(f"nested deeper than {MAX_DEPTH} levels")


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _RefusedError(f"a lone surrogate in {text[:80]!a}") from error


def _name(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
