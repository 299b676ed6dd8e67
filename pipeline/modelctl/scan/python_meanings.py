"""What a name in Python source stands for: `o.system` after `import os as o` is `os.system`.

Imports, assignments (`load = torch.load`, `(x := os)`, `a, b = os, sys`) and default values of arguments are followed,
in the whole file and without regard to scopes: a name has every meaning that it is given anywhere, so that a second
import can't hide the first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from modelctl.scan.python_text import text_of

_ROUNDS = 4
"""How often assignments are gone through: `a = os; b = a; c = b; d = c` is the longest chain that is followed."""
MAX_MEANINGS = 32


class Names(dict[str, set[str]]):
    """Meanings by name."""

    def add(self, name: str, meaning: str) -> bool:
        """Give a name one more meaning; whether that is news."""
        known = self.setdefault(name, set())
        if meaning in known or len(known) >= MAX_MEANINGS:
            return False
        known.add(meaning)
        return True


def imported(nodes: Iterable[ast.AST]) -> Names:
    """Every name of a file, given as all its nodes, that leads to something imported."""
    names = Names()
    given: list[tuple[str, ast.AST]] = []
    for node in nodes:
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    first = alias.name.partition(".")[0]
                    names.add(alias.asname or first, alias.name if alias.asname else first)
            case ast.ImportFrom(module=str(module), level=0, names=aliases):
                for alias in aliases:
                    names.add(alias.asname or alias.name, f"{module}.{alias.name}")
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                given += _defaults(node.args)
            case _:
                given += _assigned(node)
    for _ in range(_ROUNDS):
        news = [names.add(name, meaning) for name, value in given for meaning in meanings(value, names)]
        if not any(news):
            break
    return names


def meanings(node: ast.AST, names: Names) -> list[str]:
    """`a.b.c` with its first name replaced by each thing that it stands for; empty when that is nothing imported.

    `getattr(a, 'b')` counts as `a.b`, also when the text is put together.
    """
    parts: list[str] = []
    while True:
        match node:
            case ast.Attribute(value=value, attr=attr):
                parts.append(attr)
                node = value
            case ast.Call(func=ast.Name(id="getattr"), args=[value, name, *_]) if (text := text_of(name)) is not None:
                parts.append(text)
                node = value
            case ast.NamedExpr(value=value):
                node = value
            case _:
                break
    if not isinstance(node, ast.Name):
        return []
    return [".".join([meaning, *reversed(parts)]) for meaning in list(names.get(node.id, ()))]


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _pairs(target, value)
        case ast.AnnAssign(target=target, value=ast.AST() as value) | ast.NamedExpr(target=target, value=value):
            yield from _pairs(target, value)
        case ast.withitem(context_expr=value, optional_vars=ast.AST() as target):
            yield from _pairs(target, value)
        case ast.For(target=target, iter=ast.List(elts=values) | ast.Tuple(elts=values)):
            for value in values:
                yield from _pairs(target, value)
        case _:
            pass


def _pairs(target: ast.AST, value: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match target, value:
        case ast.Name(id=name), (ast.Name() | ast.Attribute() | ast.Call() | ast.NamedExpr()):
            yield name, value
        case ast.Name(), ast.IfExp(body=body, orelse=orelse):
            yield from _pairs(target, body)
            yield from _pairs(target, orelse)
        case ((ast.Tuple(elts=left) | ast.List(elts=left)), (ast.Tuple(elts=right) | ast.List(elts=right))):
            for one, other in zip(left, right, strict=False):
                yield from _pairs(one, other)
        case _:
            pass


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.AST]]:
    placed = [*arguments.posonlyargs, *arguments.args]
    for argument, value in zip(reversed(placed), reversed(arguments.defaults), strict=False):
        yield from _pairs(ast.Name(id=argument.arg), value)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            yield from _pairs(ast.Name(id=argument.arg), default)
