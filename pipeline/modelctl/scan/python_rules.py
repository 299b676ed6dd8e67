"""What Python code reaches for, read from its syntax tree: programs, code made at run time, native code, the
interpreter's insides.

Nothing is run or imported. Names are followed through `import … as` and `from … import`, and counted wherever they
are mentioned, so that `f = os.system` is seen as well as a call. Runs in a child, since a syntax tree of hostile
source can exhaust memory.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Rule = Literal["process", "dynamic-code", "native-code", "introspection", "network"]

_PREFIXES: dict[str, Rule] = {
    "os.system": "process",
    "os.popen": "process",
    "os.exec": "process",
    "os.spawn": "process",
    "os.posix_spawn": "process",
    "os.fork": "process",
    "os.startfile": "process",
    "posix.": "process",
    "nt.": "process",
    "subprocess.": "process",
    "commands.": "process",
    "pty.": "process",
    "pip.": "process",
    "pexpect.": "process",
    "asyncio.create_subprocess": "process",
    "asyncio.subprocess": "process",
    "torch.utils.collect_env": "process",
    "builtins.": "dynamic-code",
    "importlib.import_module": "dynamic-code",
    "importlib.machinery": "dynamic-code",
    "importlib.util.module_from_spec": "dynamic-code",
    "importlib.util.spec_from": "dynamic-code",
    "importlib.__import__": "dynamic-code",
    "runpy.": "dynamic-code",
    "code.interact": "dynamic-code",
    "code.Interactive": "dynamic-code",
    "codeop.": "dynamic-code",
    "marshal.": "dynamic-code",
    "pkgutil.resolve_name": "dynamic-code",
    "types.CodeType": "dynamic-code",
    "types.FunctionType": "dynamic-code",
    "sys.settrace": "dynamic-code",
    "sys.setprofile": "dynamic-code",
    "sys.meta_path": "dynamic-code",
    "sys.path_hooks": "dynamic-code",
    "ctypes.": "native-code",
    "cffi.": "native-code",
    "torch.ops.load_library": "native-code",
    "torch.classes.load_library": "native-code",
    "torch.utils.cpp_extension": "native-code",
    "tensorflow.load_op_library": "native-code",
    "inspect.currentframe": "introspection",
    "inspect.stack": "introspection",
    "sys._getframe": "introspection",
    "gc.get_": "introspection",
    "socket.": "network",
    "http.client": "network",
    "urllib.request": "network",
    "urllib3.": "network",
    "requests.": "network",
    "httpx.": "network",
    "aiohttp.": "network",
    "ftplib.": "network",
    "smtplib.": "network",
    "telnetlib.": "network",
    "paramiko.": "network",
}
_BUILTINS = frozenset({"eval", "exec", "__import__", "execfile"})
_CALLED_BUILTINS = frozenset({"compile", "breakpoint"})
_INSIDES = frozenset(
    {
        *(
            "__globals__",
            "__subclasses__",
            "__builtins__",
            "__code__",
            "__bases__",
            "__base__",
            "__mro__",
            "__closure__",
        ),
        *("__getattribute__", "__loader__", "__spec__", "f_globals", "f_locals", "f_back", "tb_frame", "gi_frame"),
    }
)
_SENSITIVE = frozenset(
    {"os", "sys", "posix", "nt", "builtins", "subprocess", "importlib", "ctypes", "pty", "shutil", "marshal"}
)
_REEXPORTED = frozenset({"os", "sys", "posix", "builtins", "subprocess", "importlib"})
"""Modules that others carry along: `random._os.system` is `os.system`."""

_Names = dict[str, set[str]]


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A place where code reaches for something: `line` counts from 1."""

    rule: Rule
    line: int
    text: str


def mentions(tree: ast.AST) -> list[Mention]:
    """Every place of a module's syntax tree that a rule is about; one for each line and rule."""
    names = _imported(tree)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    found: dict[tuple[Rule, int], Mention] = {}
    for node in ast.walk(tree):
        for mention in _of_node(node, names, used_alone=id(node) not in inner):
            found.setdefault((mention.rule, mention.line), mention)
    return sorted(found.values(), key=lambda mention: mention.line)


def is_code(tree: ast.Module) -> bool:
    """Whether a text that parses does something: a word list, a number or a YAML file parses too."""
    kinds = (ast.Import, ast.ImportFrom, ast.Call, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    return any(isinstance(node, kinds) for node in ast.walk(tree))


def _of_node(node: ast.AST, names: _Names, *, used_alone: bool) -> Iterator[Mention]:
    match node:
        case ast.Name():
            yield from _of_name(node, names, used_alone=used_alone)
        case ast.Attribute():
            yield from _of_attribute(node, names)
        case ast.Call(func=ast.Name(id=name)):
            if name in _CALLED_BUILTINS:
                yield Mention(rule="dynamic-code", line=node.lineno, text=f"{name}()")
            if name in ("getattr", "hasattr") and len(node.args) > 1:
                attribute = node.args[1]
                if isinstance(attribute, ast.Constant) and attribute.value in _INSIDES:
                    yield Mention(rule="introspection", line=node.lineno, text=f"{name}(…, {attribute.value!r})")
        case ast.ImportFrom(module=str(module)) if module in _SENSITIVE:
            if any(alias.name == "*" for alias in node.names):
                yield Mention(rule="dynamic-code", line=node.lineno, text=f"from {module} import *")
        case ast.Subscript(value=value, slice=index):
            own = isinstance(index, ast.Name) and index.id == "__name__"
            if "sys.modules" in _meanings(value, names) and not own:
                yield Mention(rule="dynamic-code", line=node.lineno, text="sys.modules[…]")
        case _:
            pass


def _of_name(node: ast.Name, names: _Names, *, used_alone: bool) -> Iterator[Mention]:
    if node.id in _BUILTINS:
        yield Mention(rule="dynamic-code", line=node.lineno, text=node.id)
    elif node.id in _INSIDES:
        yield Mention(rule="introspection", line=node.lineno, text=node.id)
    for meaning in names.get(node.id, ()):
        if used_alone and meaning in _SENSITIVE:
            yield Mention(rule="dynamic-code", line=node.lineno, text=f"{meaning} is handed on as a value")
        yield from _of_meaning(meaning, node.lineno)


def _of_attribute(node: ast.Attribute, names: _Names) -> Iterator[Mention]:
    if node.attr in _INSIDES:
        yield Mention(rule="introspection", line=node.lineno, text=f".{node.attr}")
    elif node.attr.lstrip("_") in _REEXPORTED:
        yield Mention(rule="dynamic-code", line=node.lineno, text=f".{node.attr} of another module")
    for meaning in _meanings(node, names):
        if node.attr == "__dict__" and meaning.removesuffix(".__dict__") in _SENSITIVE:
            yield Mention(rule="dynamic-code", line=node.lineno, text=meaning)
        yield from _of_meaning(meaning, node.lineno)


def _of_meaning(dotted: str, line: int) -> Iterator[Mention]:
    rule = _rule_of(dotted)
    if rule is not None:
        yield Mention(rule=rule, line=line, text=dotted)


def _imported(tree: ast.AST) -> _Names:
    """Local names and all that they stand for anywhere: `import os.path as p` gives p → os.path.

    A name that is imported twice keeps both meanings, so that a second import can't hide the first.
    """
    names: _Names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                names.setdefault(alias.asname or first, set()).add(alias.name if alias.asname else first)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names.setdefault(alias.asname or alias.name, set()).add(f"{node.module}.{alias.name}")
    return names


def _meanings(node: ast.AST, names: _Names) -> list[str]:
    """`a.b.c` with its first name replaced by each thing that was imported under it; empty when it is nothing
    imported."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return []
    return [".".join([meaning, *reversed(parts)]) for meaning in names.get(node.id, ())]


def _rule_of(dotted: str) -> Rule | None:
    for prefix, rule in _PREFIXES.items():
        if dotted.startswith(prefix):
            return rule
    return None
