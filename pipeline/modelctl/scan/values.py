"""What the abstract machine of `opcodes` knows of the objects on a pickle's stack.

Texts, small integers, booleans, None, short tuples, dictionaries with texts as keys, imported names and what was made
by calling them are followed; everything else is `UNKNOWN`. Nothing is ever imported or made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

UNKNOWN = object()
"""Any object that is not followed."""
MAX_ELEMENTS = 64
"""Elements of a tuple or a dictionary that is followed; arrays' shapes, types and joblib's wrappers have fewer."""
MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Name:
    """An imported name."""

    module: str
    name: str


class Made:
    """The result of a call of an imported name; its state is what a BUILD gave it last."""

    __slots__ = ("arguments", "maker", "sealed", "state")

    def __init__(self, maker: Name, arguments: object) -> None:
        self.maker = maker
        self.arguments = arguments
        self.state: object = None
        self.sealed = False


class Fields:
    """A dictionary, or as much of it as is followed."""

    __slots__ = ("complete", "sealed", "values")

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self.complete = True
        self.sealed = False

    def put(self, key: object, value: object) -> None:
        """Set one entry."""
        if isinstance(key, str) and (key in self.values or len(self.values) < MAX_ELEMENTS):
            self.values[key] = value
        else:
            self.complete = False


@dataclass(frozen=True, kw_only=True)
class ArrayType:
    """A NumPy dtype: bytes of an element, and whether it holds references to objects."""

    size: int
    objects: bool


_SIMPLE = re.compile(r"[<>|=]?(?:([biufcOMmSaV])(\d{1,9})|(U)(\d{1,9})|([?]))")
_REFERENCES = 1
"""The flag by which NumPy knows that the elements of a dtype hold references (NPY_ITEM_REFCOUNT)."""


def simple_type(text: str) -> ArrayType | None:
    """A dtype that is written as a kind and a size: `<f4`, `|S5`, `U10`, `O8`; None for what is none."""
    match = _SIMPLE.fullmatch(text)
    if match is None:
        return ArrayType(size=8, objects=True) if re.fullmatch(r"[<>|=]?O", text) else None
    if match[5]:
        return ArrayType(size=1, objects=False)
    if match[3]:
        return ArrayType(size=4 * int(match[4]), objects=False)
    return ArrayType(size=int(match[2]), objects=match[1] == "O")


def array_type(value: object, *, depth: int = 0) -> ArrayType | None:
    """What a followed object is as a dtype; None when that can't be told, or when it is no honest one.

    A structured dtype whose fields hold objects, and whose flags deny it, makes NumPy read any bytes as pointers.
    """
    if not isinstance(value, Made) or value.maker != Name("numpy", "dtype") or depth > MAX_DEPTH:
        return None
    arguments = value.arguments
    if not isinstance(arguments, tuple) or not arguments or not isinstance(arguments[0], str):
        return None
    plain = simple_type(arguments[0])
    if plain is None or value.state is None:
        return plain
    state = value.state
    if not isinstance(state, tuple) or len(state) < 5:
        return None
    parts = _parts(state)
    if parts is None:
        return None
    if not parts:
        return plain
    types = [array_type(part, depth=depth + 1) for part in parts]
    flags = state[7] if len(state) > 7 else None
    size = state[5] if len(state) > 5 else None
    if None in types or not isinstance(flags, int) or not isinstance(size, int) or size < 0:
        return None
    objects = any(item is not None and item.objects for item in types)
    return ArrayType(size=size, objects=objects) if not objects or flags & _REFERENCES else None


def _parts(state: tuple[object, ...]) -> list[object] | None:
    """The dtypes that a dtype's state is made of: its element's when it is a subarray, its fields'."""
    subarray, names, fields = state[2], state[3], state[4]
    parts: list[object] = []
    if subarray is not None:
        if not isinstance(subarray, tuple) or not subarray:
            return None
        parts.append(subarray[0])
    if fields is None and names is None:
        return parts
    if not isinstance(fields, Fields) or not fields.complete:
        return None
    for field in fields.values.values():
        if not isinstance(field, tuple) or not field:
            return None
        parts.append(field[0])
    return parts


def seal(value: object, *, depth: int = 0) -> None:
    """Mark what a dtype is made of, so that a later change of it is noticed: NumPy keeps the very objects."""
    if depth > 3 * MAX_DEPTH:
        return
    if isinstance(value, tuple):
        for item in value:
            seal(item, depth=depth + 1)
    elif isinstance(value, Fields) and not value.sealed:
        value.sealed = True
        for item in value.values.values():
            seal(item, depth=depth + 1)
    elif isinstance(value, Made) and not value.sealed:
        value.sealed = True
        seal(value.state, depth=depth + 1)
