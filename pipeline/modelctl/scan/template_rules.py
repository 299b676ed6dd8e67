"""What a chat template reaches for, read from its syntax tree: Python's insides, attributes under computed names,
other files, sizes that no chat has.

The template is parsed and never compiled: compiling folds constants, which already runs parts of it. Texts that are put
together (`'__cla' ~ 'ss__'`, also over `set`) are put together here, within bounds. Runs in a child.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import Environment, TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

from modelctl.scan.template_text import Values, text_of, values_of

_INSIDES = (
    "base|bases|builtins|call|class|closure|code|dict|func|getattr|getattribute|getitem|globals|import|init|kwdefaults"
    "|loader|module|mro|reduce|reduce_ex|self|spec|subclasses|wrapped"
)
_WORD = re.compile(rf"__({_INSIDES})|({_INSIDES})__")
_FORMAT = re.compile(r"\{[^{}]*[.\[]\s*_")
_HELPERS = frozenset({"lipsum", "cycler", "joiner", "self", "caller", "varargs", "kwargs"})
"""Names that jinja itself provides; a chat has no use for them, and each leads to its Python function."""
_CALLER = frozenset({"caller", "varargs", "kwargs"})
"""What a macro may use of them: `caller` is how `{% call %}` hands its body over."""
_FILTERS = frozenset({"attr", "pprint"})
_BY_ATTRIBUTE = frozenset({"map", "groupby", "sort", "unique", "min", "max", "sum", "selectattr", "rejectattr"})
"""Filters that take the name of an attribute, by the name `attribute` or in the first place."""
_FIRST_IS_ATTRIBUTE = frozenset({"groupby", "selectattr", "rejectattr"})
_SIZED = frozenset({"center", "indent", "ljust", "rjust", "zfill", "wordwrap", "batch", "slice", "range"})
"""Filters and methods whose number says how much is made."""
MAX_SIZE = 100_000
_TEXT_FILTERS = frozenset({"join", "replace", "format", "reverse", "lower", "upper", "string"})


class _Generation(Extension):
    """The block that marks the assistant's words; its body is parsed as usual."""

    tags = {"generation"}  # noqa: RUF012 - declared by jinja as a plain set

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def problems(template: str) -> list[str]:
    """Why a template is refused, with its lines; none for an ordinary one."""
    environment = Environment(extensions=["jinja2.ext.loopcontrols", "jinja2.ext.do", _Generation])  # noqa: S701 - parses only
    try:
        tree = environment.parse(template)
        return list(dict.fromkeys(_problems(tree)))
    except TemplateError as error:
        return [f"does not parse: {str(error)[:200]}"]
    except RecursionError:
        return ["nested too deeply to be judged"]


def _problems(tree: nodes.Template) -> Iterator[str]:
    values = values_of(tree)
    for node in tree.find_all(nodes.Node):
        line = f"line {node.lineno}: "
        for words in (*_of_node(node, values), *_of_size(node, values)):
            yield line + words


def _of_node(node: nodes.Node, values: Values) -> Iterator[str]:
    match node:
        case nodes.Getattr(attr=name) if name.startswith("_"):
            yield f"reaches for the attribute {name[:60]}"
        case nodes.Getitem(arg=argument):
            yield from _of_item(argument, values)
        case nodes.Filter(name=name) if name in _FILTERS:
            yield f"uses the filter {name}, which reaches into objects"
        case nodes.Filter(name=name) if name in _BY_ATTRIBUTE and _is_computed(node, values):
            yield f"the filter {name} takes an attribute under a computed name"
        case nodes.Name(name=name, ctx="load") if name in _HELPERS - _CALLER:
            yield f"uses {name}, which a chat template has no need of"
        case nodes.Include() | nodes.Import() | nodes.FromImport() | nodes.Extends():
            yield "loads another template"
        case _:
            pass
    if isinstance(node, nodes.Expr):
        for text in text_of(node, values):
            if _WORD.search(text) or _FORMAT.search(text):
                yield f"builds the name of an attribute from {text[:60]!a}"


def _of_item(argument: nodes.Node, values: Values) -> Iterator[str]:
    texts = text_of(argument, values) if isinstance(argument, nodes.Expr) else ()
    private = [text for text in texts if text.startswith("_")]
    if private:
        yield f"reaches for the item {private[0][:60]!a}"
    elif _is_built_text(argument):
        yield "reaches for an item under a name that is put together"


def _is_computed(node: nodes.Filter, values: Values) -> bool:
    named = [pair.value for pair in node.kwargs or () if pair.key == "attribute"]
    if node.name in _FIRST_IS_ATTRIBUTE:
        named += (node.args or [])[:1]
    return any(
        not isinstance(value, nodes.Const) or any(part.startswith("_") for part in str(value.value).split("."))
        for value in named
    )


def _of_size(node: nodes.Node, values: Values) -> Iterator[str]:
    """Numbers that only serve to fill the memory or the time of whoever renders."""
    match node:
        case nodes.Pow():
            yield "raises to a power, for which a chat has no use"
        case nodes.Mul(left=left, right=right) if max(_size(left), _size(right)) > MAX_SIZE:
            yield "multiplies by a number that no chat has"
        case nodes.Filter(name=name, args=arguments) if name in _SIZED:
            yield from (f"{name} of a size that no chat has" for one in arguments if _size(one) > MAX_SIZE)
        case nodes.Call(node=nodes.Getattr(attr=name) | nodes.Name(name=name), args=arguments) if name in _SIZED:
            yield from (f"{name}() of a size that no chat has" for one in arguments if _size(one) > MAX_SIZE)
        case nodes.Const(value=str(text)) if re.search(r"%[-+ #0]*\d{6,}|\{[^{}]*:[^{}]*\d{6,}[^{}]*\}", text):
            yield "formats to a width that no chat has"
        case nodes.For(iter=first) if (rounds := _rounds(first)) > 1:
            inner = [_rounds(loop.iter) for loop in node.find_all(nodes.For) if loop is not node]
            if rounds * max(inner, default=1) > MAX_SIZE:
                yield "loops within loops over more numbers than any chat has"
        case _:
            pass


def _size(node: nodes.Node) -> int:
    match node:
        case nodes.Const(value=int(number)):
            return abs(number)
        case nodes.Mul(left=left, right=right):
            return max(_size(left), 1) * max(_size(right), 1)
        case _:
            return 0


def _rounds(node: nodes.Node) -> int:
    match node:
        case nodes.Call(node=nodes.Name(name="range"), args=arguments):
            return max([_size(argument) for argument in arguments], default=0)
        case _:
            return 0


def _is_built_text(argument: nodes.Node) -> bool:
    """Whether a subscript is a text put together in place; sums of numbers are common and fine."""
    for node in (argument, *argument.find_all(nodes.Node)):
        match node:
            case nodes.Concat():
                return True
            case nodes.Add(left=left, right=right) | nodes.Mod(left=left, right=right):
                if any(isinstance(side, nodes.Const) and isinstance(side.value, str) for side in (left, right)):
                    return True
            case nodes.Filter(name=name) if name in _TEXT_FILTERS:
                return True
            case _:
                pass
    return False
