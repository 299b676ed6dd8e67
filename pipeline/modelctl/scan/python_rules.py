"""What Python code reaches for, read from its syntax tree: programs, code made at run time, native code, the
interpreter's insides.

Nothing is run or imported. Names are followed through imports, assignments and default values, and counted wherever
they are mentioned, so that `f = os.system` is seen as well as a call. Runs in a child, since a syntax tree of hostile
source can exhaust memory.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from modelctl.scan.python_calls import of_call
from modelctl.scan.python_meanings import Names, imported, meanings
from modelctl.scan.python_names import BUILT_NAMES, BUILTINS, INSIDES, REEXPORTED, SENSITIVE, Rule, rule_of
from modelctl.scan.python_text import built_text, may_build

_BUILDING = (ast.BinOp, ast.JoinedStr, ast.Call, ast.Subscript)
_FUNCTIONS = frozenset(
    {"print", "len", "open", "abs", "all", "any", "id", "hash", "iter", "next", "repr", "sum", "max"}
)


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A place where code reaches for something: `line` counts from 1."""

    rule: Rule
    line: int
    text: str


def mentions(tree: ast.AST) -> list[Mention]:
    """Every place of a module's syntax tree that a rule is about; one for each line and rule."""
    nodes: list[ast.AST] = [tree]
    parents: dict[int, ast.AST] = {}
    for node in nodes:  # grows while it is gone through
        for child in ast.iter_child_nodes(node):
            parents[id(child)] = node
            nodes.append(child)
    names = imported(nodes)
    found: dict[tuple[Rule, int], Mention] = {}
    for node in nodes:
        for rule, text in _of_node(node, names, parents):
            mention = Mention(rule=rule, line=getattr(node, "lineno", 1), text=text)
            found.setdefault((mention.rule, mention.line), mention)
    return sorted(found.values(), key=lambda mention: mention.line)


def is_code(tree: ast.Module) -> bool:
    """Whether a text that parses does something: a word list, a number or a YAML file parses too."""
    kinds = (ast.Import, ast.ImportFrom, ast.Call, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    return any(isinstance(node, kinds) for node in ast.walk(tree))


Found = tuple[Rule, str]


def _of_node(node: ast.AST, names: Names, parents: dict[int, ast.AST]) -> Iterator[Found]:
    match node:
        case ast.Name():
            yield from _of_name(node, names, parents.get(id(node)))
        case ast.Attribute():
            yield from _of_attribute(node, names, parents.get(id(node)))
        case ast.Call():
            yield from of_call(node, names, parents.get(id(node)))
        case ast.ImportFrom(module=str(module), level=0):
            yield from _of_import(module, node)
        case ast.Subscript(value=value, slice=index):
            own = isinstance(index, ast.Name) and index.id == "__name__"
            if "sys.modules" in meanings(value, names) and not own:
                yield "dynamic-code", "sys.modules[…]"
            if isinstance(index, ast.Constant) and index.value in INSIDES:
                yield "introspection", f"[{index.value!r}]"
        case ast.Assign(targets=targets) if any("sys.path" in meanings(target, names) for target in targets):
            yield "dynamic-code", "sys.path is set: modules come from another folder"
        case _:
            pass
    if isinstance(node, _BUILDING) and may_build(node):
        text = built_text(node)
        if text is not None and (text in BUILT_NAMES or text.strip("_") in {"import", "globals", "subclasses"}):
            yield "dynamic-code", f"the name {text!r} is put together"


def _of_import(module: str, node: ast.ImportFrom) -> Iterator[Found]:
    for alias in node.names:
        if alias.name == "*" and (module in SENSITIVE or rule_of(f"{module}.x") not in (None, "network")):
            yield "dynamic-code", f"from {module} import *"
        elif alias.name.lstrip("_") in REEXPORTED and module.partition(".")[0] != "six":
            yield "dynamic-code", f"from {module} import {alias.name}: a module that another carries along"
        rule = rule_of(f"{module}.{alias.name}")
        if rule is not None and rule != "network" and alias.name != "*":
            yield rule, f"{module}.{alias.name}"


def _of_name(node: ast.Name, names: Names, parent: ast.AST | None) -> Iterator[Found]:
    if node.id in BUILTINS:
        yield "dynamic-code", node.id
    elif node.id in INSIDES:
        yield "introspection", node.id
    stored = not isinstance(node.ctx, ast.Load)
    for meaning in names.get(node.id, ()):
        alone = not isinstance(parent, ast.Attribute) and not stored
        if alone and meaning in SENSITIVE:
            yield "dynamic-code", f"{meaning} is handed on as a value"
        if not stored:
            yield from _of_meaning(meaning)


def _of_attribute(node: ast.Attribute, names: Names, parent: ast.AST | None) -> Iterator[Found]:
    if node.attr in INSIDES and isinstance(node.ctx, ast.Load):
        yield "introspection", f".{node.attr}"
    elif node.attr == "__self__" and isinstance(node.value, ast.Name) and node.value.id in _FUNCTIONS:
        yield "introspection", f"{node.value.id}.__self__"
    found = meanings(node, names)
    if node.attr.lstrip("_") in REEXPORTED and not _is_own(node.value):
        yield "dynamic-code", f".{node.attr} of another module"
    for meaning in found:
        if node.attr == "__dict__" and meaning.removesuffix(".__dict__") in SENSITIVE | {"torch", "numpy", "yaml"}:
            yield "dynamic-code", meaning
        if meaning == "torch.load" and not (isinstance(parent, ast.Call) and parent.func is node):
            yield "dynamic-code", "torch.load is handed on: whether it reads weights only can't be told"
        yield from _of_meaning(meaning)


def _of_meaning(dotted: str) -> Iterator[Found]:
    rule = rule_of(dotted)
    if rule is not None:
        yield rule, dotted


def _is_own(node: ast.AST) -> bool:
    """`self.sys` and `config.os` are attributes of an object, and no module that another carries along."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls", "config", "args", "cfg")
