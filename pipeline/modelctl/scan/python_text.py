"""Texts that Python code puts together from pieces, worked out without running it: `'sys' + 'tem'`, `chr(101) + 'val'`,
`'metsys'[::-1]`, `base64.b64decode('b3M=').decode()`.

Bounded: no text over 4096 characters is made, and nothing but texts, bytes, numbers and lists of them is followed.
"""

from __future__ import annotations

import ast
import base64
import binascii
import codecs

MAX_CHARACTERS = 4096
_MAX_DEPTH = 40
_PLAIN_METHODS = frozenset(
    {"lower", "upper", "strip", "lstrip", "rstrip", "swapcase", "title", "casefold", "capitalize"}
)
_CODECS = frozenset({"rot13", "rot_13", "hex", "hex_codec", "base64", "base64_codec", "utf-8", "utf8", "ascii"})

_MAKERS = _PLAIN_METHODS | {
    "join", "replace", "format", "decode", "encode", "fromhex", "b64decode", "chr", "str", "bytes",
}  # fmt: skip

Folded = str | bytes | int | list["Folded"] | None


def built_text(node: ast.AST) -> str | None:
    """The text that an expression makes from pieces; None for a plain text and for what can't be told."""
    if isinstance(node, ast.Constant | ast.Name | ast.Attribute):
        return None
    return text_of(node)


def may_build(node: ast.AST) -> bool:
    """Whether an expression may be a text put together: a quick look that most of a file's expressions fail."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Mod() | ast.Mult()):
            return not isinstance(left, ast.Name | ast.Attribute)
        case ast.Subscript(value=value):
            return not isinstance(value, ast.Name | ast.Attribute)
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=arguments):
            return attr in _MAKERS and (bool(arguments) or not isinstance(owner, ast.Name | ast.Attribute))
        case ast.Call(func=ast.Name(id=name)):
            return name in _MAKERS
        case _:
            return isinstance(node, ast.JoinedStr)


def text_of(node: ast.AST) -> str | None:
    """The text that an expression is, plain or put together; None when that can't be told."""
    try:
        value = _fold(node, 0)
    except (ValueError, TypeError, LookupError, OverflowError, binascii.Error):
        return None
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    return value if isinstance(value, str) else None


def _fold(node: ast.AST, depth: int) -> Folded:
    if depth > _MAX_DEPTH:
        return None
    below = depth + 1
    match node:
        case ast.Constant(value=str() | bytes() | int() as value):
            return value if isinstance(value, int) or len(value) <= MAX_CHARACTERS else None
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _bounded(_joined(_fold(left, below), _fold(right, below)))
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            return _formatted(_fold(left, below), right, below)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _repeated(_fold(left, below), _fold(right, below))
        case ast.JoinedStr(values=values):
            return _bounded(_concatenated([_fold(value, below) for value in values]))
        case ast.FormattedValue(value=value, format_spec=None):
            return _fold(value, below)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_fold(item, below) for item in items[:MAX_CHARACTERS]]
        case ast.Subscript(value=value, slice=index):
            return _part(_fold(value, below), index, below)
        case ast.NamedExpr(value=value):
            return _fold(value, below)
        case ast.Call(func=function, args=arguments, keywords=[]):
            return _called(function, [_fold(argument, below) for argument in arguments], below)
        case _:
            return None


def _joined(left: Folded, right: Folded) -> Folded:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left + right
    return left + right if isinstance(left, list) and isinstance(right, list) else None


def _repeated(left: Folded, right: Folded) -> Folded:
    text, count = (left, right) if isinstance(left, str) else (right, left)
    if isinstance(text, str) and isinstance(count, int) and 0 <= count * len(text) <= MAX_CHARACTERS:
        return text * count
    return None


def _formatted(pattern: Folded, argument: ast.AST, depth: int) -> Folded:
    value = _fold(argument, depth)
    values = tuple(value) if isinstance(value, list) else (value,)
    if not isinstance(pattern, str) or any(isinstance(item, list) or item is None for item in values):
        return None
    if any(letter.isdigit() or letter in "*." for letter in pattern):
        return None  # a width could be as large as it likes
    return _bounded(pattern % values)


def _concatenated(parts: list[Folded]) -> Folded:
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if len(texts) == len(parts) else None


def _part(value: Folded, index: ast.AST, depth: int) -> Folded:
    if value is None or isinstance(value, int):
        return None
    if isinstance(index, ast.Slice):
        bounds = [_number(bound, depth) for bound in (index.lower, index.upper, index.step)]
        return value[slice(*bounds)]
    position = _fold(index, depth)
    return value[position] if isinstance(position, int) else None


def _number(node: ast.AST | None, depth: int) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _fold(node.operand, depth)
        return -value if isinstance(value, int) else None
    value = _fold(node, depth) if node is not None else None
    return value if isinstance(value, int) else None


def _called(function: ast.AST, arguments: list[Folded], depth: int) -> Folded:
    match function, arguments:
        case ast.Name(id="chr"), [int(number)]:
            return chr(number)
        case ast.Name(id="str" | "repr"), [str(text)]:
            return text
        case ast.Name(id="reversed" | "list" | "tuple" as name), [str() | list() as value]:
            items = list(value)
            return items[::-1] if name == "reversed" else items
        case ast.Name(id="bytes" | "bytearray"), [list(numbers)]:
            return bytes(number for number in numbers if isinstance(number, int))
        case ((ast.Attribute(attr=name) | ast.Name(id=name)), [str() | bytes() as value]) if name.startswith(
            "b64decode"
        ):
            return base64.b64decode(value)
        case ast.Attribute(attr="fromhex"), [str(value)]:
            return bytes.fromhex(value)
        case ast.Attribute(attr="decode", value=ast.Name(id="codecs")), [str() | bytes() as value, str(codec)]:
            return _bounded(codecs.decode(value, codec)) if codec.lower() in _CODECS else None  # type: ignore[arg-type]
        case ast.Attribute(attr=name, value=owner), _:
            return _method(_fold(owner, depth), name, arguments)
        case _:
            return None


def _method(owner: Folded, name: str, arguments: list[Folded]) -> Folded:
    match owner, name, arguments:
        case str(text), "join", [list(parts)]:
            texts = [part for part in parts if isinstance(part, str)]
            return _bounded(text.join(texts)) if len(texts) == len(parts) else None
        case str(text), "join", [str(letters)]:
            return _bounded(text.join(letters))
        case str(text), "replace", [str(old), str(new)]:
            return _bounded(text.replace(old, new)) if len(text) * (len(new) + 1) <= MAX_CHARACTERS else None
        case str(text), "format", parts if ":" not in text and all(isinstance(part, str | int) for part in parts):
            return _bounded(text.format(*parts)) if "[" not in text and "._" not in text else None
        case bytes(content), "decode", _:
            return content.decode("utf-8", "replace")
        case str(text), "encode", _:
            return text.encode()
        case str(text), method, [] if method in _PLAIN_METHODS:
            return str(getattr(text, method)())
        case _:
            return None


def _bounded(value: Folded) -> Folded:
    return value if not isinstance(value, str | bytes | list) or len(value) <= MAX_CHARACTERS else None
