"""What the fields of a document say of themselves: the text under each, as it stands in the source.

Read when asked for and not when a class is made, so that a command which explains nothing pays nothing.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from modelctl.documents import Document


@dataclass(frozen=True, kw_only=True)
class FieldDoc:
    """One key of a document, for a table that people read."""

    key: tuple[str, ...]
    """From the top; `*` for a name that the author chooses."""
    type: str
    default: object
    required: bool
    text: str
    section: bool
    """Whether it is a mapping of further keys."""


def fields(kind: type[Document], at: tuple[str, ...] = ()) -> Iterator[FieldDoc]:
    """Every key of a document class, depth first, in the order of the source."""
    texts = texts_of(kind)
    for name, info in kind.model_fields.items():
        key = (*at, info.alias or name)
        inner, named = _inner(info.annotation)
        default = info.get_default(call_default_factory=True)
        yield FieldDoc(
            key=key,
            type=type_words(info.annotation),
            default=None if info.is_required() else default,
            required=info.is_required(),
            text=texts.get(name, ""),
            section=inner is not None,
        )
        if inner is not None:
            yield from fields(inner, (*key, "*") if named else key)


@cache
def texts_of(kind: type) -> Mapping[str, str]:
    """The text under each field of a document or dataclass, on one line; of a field that is written twice, the derived
    class's."""
    found: dict[str, str] = {}
    for owner in kind.__mro__:
        if owner is Document or not (is_dataclass(owner) or issubclass(owner, Document)):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        if not isinstance(body, ast.ClassDef):
            continue
        for field, after in zip(body.body, body.body[1:], strict=False):
            match field, after:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str() as text)),
                ):
                    found.setdefault(name, " ".join(text.split()))
    return found


def type_words(annotation: Any) -> str:
    """A type as a person who writes YAML thinks of it: `number`, `list of text`, `"required" or "optional"`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{argument}`" for argument in arguments)
    if origin in (Union, UnionType):
        return " or ".join(type_words(argument) for argument in arguments)
    if origin is tuple:
        return f"list of {type_words(arguments[0])}"
    if origin is dict:
        return "mapping"
    if arguments and hasattr(annotation, "__metadata__"):
        return type_words(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, Document):
        return "mapping"
    words = {bool: "true or false", int: "whole number", float: "number", NoneType: "none"}
    return words.get(annotation, "text")


def _inner(annotation: Any) -> tuple[type[Document] | None, bool]:
    """The document class of a section, and whether it stands below names of the author's choice."""
    if isinstance(annotation, type) and issubclass(annotation, Document):
        return annotation, False
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is dict and len(arguments) == 2:
        return _inner(arguments[1])[0], True
    if origin is tuple:
        return _inner(arguments[0])[0], True
    if origin in (Union, UnionType):
        found = [inner for argument in arguments if (inner := _inner(argument)[0]) is not None]
        return (found[0] if len(found) == 1 else None), False
    if arguments and hasattr(annotation, "__metadata__"):
        return _inner(arguments[0])
    return None, False
