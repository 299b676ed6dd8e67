"""What a chat template reaches for, read from its syntax tree: Python's insides, attributes under computed names,
other files.

The template is parsed and never compiled: compiling folds constants, which already runs parts of it. Runs in a
child.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import Environment, TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

_INSIDES = (
    "base|bases|builtins|call|class|closure|code|dict|func|getattr|getattribute|getitem|globals|import|init|kwdefaults|loader|module|"
    "mro|reduce|reduce_ex|self|spec|subclasses|wrapped"
)
_WORD = re.compile(rf"__({_INSIDES})|({_INSIDES})__")
_HELPERS = frozenset({"lipsum", "cycler", "joiner", "self", "caller", "varargs", "kwargs"})
"""Names that jinja itself provides; a chat has no use for them, and each leads to its Python function."""
_FILTERS = frozenset({"attr", "pprint"})
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
    for node in tree.find_all(nodes.Node):
        line = f"line {node.lineno}: "
        match node:
            case nodes.Getattr(attr=name) if name.startswith("_"):
                yield f"{line}reaches for the attribute {name[:60]}"
            case nodes.Const(value=str(text)) if _WORD.search(text):
                yield f"{line}builds the name of an attribute from {text[:60]!a}"
            case nodes.Getitem(arg=nodes.Const(value=str(text))) if text.startswith("_"):
                yield f"{line}reaches for the item {text[:60]!a}"
            case nodes.Getitem(arg=argument) if _is_built_text(argument):
                yield f"{line}reaches for an item under a name that is put together"
            case nodes.Filter(name=name) if name in _FILTERS:
                yield f"{line}uses the filter {name}, which reaches into objects"
            case nodes.Filter(name="map", kwargs=kwargs) if any(item.key == "attribute" for item in kwargs):
                attribute = next(item.value for item in kwargs if item.key == "attribute")
                if not isinstance(attribute, nodes.Const):
                    yield f"{line}maps an attribute under a computed name"
            case nodes.Name(name=name, ctx="load") if name in _HELPERS:
                yield f"{line}uses {name}, which a chat template has no need of"
            case nodes.Include() | nodes.Import() | nodes.FromImport() | nodes.Extends():
                yield f"{line}loads another template"
            case _:
                pass


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
