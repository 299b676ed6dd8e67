"""Texts that a jinja template puts together, worked out without compiling it: constants joined by `~`, `+`, `*`, `%`,
`join`, `replace`, `reverse`, `format`, also through variables that are `set`.

Bounded: no text over 200 characters and no more than 16 values for one expression, since what is looked for is the
name of an attribute.
"""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import nodes

MAX_CHARACTERS = 200
MAX_VALUES = 16
_MAX_DEPTH = 24

Values = dict[str, tuple[str, ...]]
"""Every text that a variable is set to anywhere."""


def values_of(tree: nodes.Template) -> Values:
    """The texts that the template's own variables hold; three rounds, so that one may be made of another."""
    values: Values = {}
    for _ in range(3):
        for node in tree.find_all(nodes.Assign):
            match node.target:
                case nodes.Name(name=name) | nodes.NSRef(attr=name):
                    found = text_of(node.node, values)
                    values[name] = tuple(dict.fromkeys((*values.get(name, ()), *found)))[:MAX_VALUES]
    return values


def text_of(node: nodes.Node, values: Values) -> tuple[str, ...]:
    """All texts that an expression may be, as far as it is made of constants; empty when that can't be told."""
    return tuple(text for text in _texts(node, values, 0) if len(text) <= MAX_CHARACTERS)[:MAX_VALUES]


def _texts(node: nodes.Node, values: Values, depth: int) -> Sequence[str]:
    if depth > _MAX_DEPTH:
        return ()
    below = depth + 1
    match node:
        case nodes.Const(value=str(text)) | nodes.TemplateData(data=text):
            return (text,)
        case nodes.Name(name=name) | nodes.Getattr(attr=name, node=nodes.Name()):
            return values.get(name, ())
        case nodes.Filter(node=nodes.Node() as inner, name=name, args=arguments):
            return _filtered(name, inner, [_texts(one, values, below) for one in arguments], values, below)
        case nodes.Call(node=nodes.Getattr(node=owner, attr=name), args=arguments):
            return _filtered(name, owner, [_texts(one, values, below) for one in arguments], values, below)
        case nodes.Getitem(node=owner, arg=nodes.Slice(start=None, stop=None, step=nodes.Neg())):
            return [text[::-1] for text in _texts(owner, values, below)]
        case nodes.CondExpr(expr1=one, expr2=other):
            return [*_texts(one, values, below), *(_texts(other, values, below) if other is not None else ())]
        case _:
            return _joined(node, values, below)


def _joined(node: nodes.Node, values: Values, depth: int) -> Sequence[str]:
    match node:
        case nodes.Concat(nodes=parts):
            return _products([_texts(part, values, depth) for part in parts])
        case nodes.Add(left=left, right=right):
            return _products([_texts(left, values, depth), _texts(right, values, depth)])
        case nodes.Mul(left=text, right=nodes.Const(value=int(count))) if 0 <= count <= MAX_CHARACTERS:
            return [one * count for one in _texts(text, values, depth) if len(one) * count <= MAX_CHARACTERS]
        case nodes.Mod(left=pattern, right=argument):
            return _formatted(_texts(pattern, values, depth), _items(argument, values, depth))
        case _:
            return ()


def _items(node: nodes.Node, values: Values, depth: int) -> list[Sequence[str]]:
    parts = node.items if isinstance(node, nodes.List | nodes.Tuple) else [node]
    return [
        (chr(part.value),) if _is_letter(part) else _texts(part, values, depth)  # type: ignore[attr-defined]
        for part in parts[:MAX_CHARACTERS]
    ]


def _is_letter(node: nodes.Node) -> bool:
    """Whether a number may be the code of a letter, for `%c`."""
    return isinstance(node, nodes.Const) and type(node.value) is int and 32 <= node.value < 127


def _filtered(
    name: str, inner: nodes.Node, arguments: list[Sequence[str]], values: Values, depth: int
) -> Sequence[str]:
    texts = _texts(inner, values, depth)
    match name, arguments:
        case "join", _ if isinstance(inner, nodes.List | nodes.Tuple):
            between = arguments[0][0] if arguments and arguments[0] else ""
            parts = _items(inner, values, depth)
            return _products([part for pair in ((p, (between,)) for p in parts) for part in pair][:-1])
        case "join", [_] if isinstance(inner, nodes.Const):
            return ()
        case "replace", [[str(old), *_], [str(new), *_], *_] if len(new) <= MAX_CHARACTERS:
            return [text.replace(old, new) for text in texts]
        case "reverse", _:
            return [text[::-1] for text in texts]
        case "lower" | "upper" | "swapcase" | "title" | "capitalize", _:
            return [str(getattr(text, name)()) for text in texts]
        case "string" | "safe" | "trim" | "strip", _:
            return texts
        case "format", _:
            return _formatted(texts, arguments) + _braced(texts, arguments)
        case _:
            return ()


def _formatted(patterns: Sequence[str], arguments: list[Sequence[str]]) -> list[str]:
    firsts = [argument[0] for argument in arguments if argument]
    made = []
    for pattern in patterns:
        parts = pattern.replace("%c", "%s").split("%s")
        if len(parts) == len(firsts) + 1 == len(arguments) + 1:
            made.append("".join(part + text for part, text in zip(parts, [*firsts, ""], strict=True)))
    return made


def _braced(patterns: Sequence[str], arguments: list[Sequence[str]]) -> list[str]:
    firsts = [argument[0] for argument in arguments if argument]
    made = []
    for pattern in patterns:
        text = pattern
        for number, first in enumerate(firsts):
            text = text.replace(f"{{{number}}}", first).replace("{}", first, 1)
        made.append(text)
    return made


def _products(parts: list[Sequence[str]]) -> list[str]:
    """Every way to join one text of each part; empty when a part is unknown."""
    made = [""]
    for part in parts:
        made = [left + right for left in made for right in part if len(left) + len(right) <= MAX_CHARACTERS][
            :MAX_VALUES
        ]
    return made
