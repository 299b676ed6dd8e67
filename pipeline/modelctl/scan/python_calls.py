"""Calls in Python source that run code by what they are given: `torch.load` of anything but weights, `getattr` under a
telling name, methods that start programs on an object that nobody named."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from modelctl.scan.python_meanings import Names, meanings
from modelctl.scan.python_names import CALLED_BUILTINS, CALLED_METHODS, INSIDES, Rule
from modelctl.scan.python_text import text_of

_SAFE_LOADERS = frozenset({"SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader"})
_TELLING = INSIDES | {"system", "popen", "__import__", "exec", "execv"}
_CODE_SUFFIXES = (".py", ".pth", ".pyc", ".so", ".sh", ".bashrc", ".profile", ".zshrc", "authorized_keys", "crontab")
_REACHING = ("attrgetter", "methodcaller")


def of_call(node: ast.Call, names: Names, parent: ast.AST | None) -> Iterator[tuple[Rule, str]]:
    """(rule, words) for everything that one call does wrong by itself."""
    called = meanings(node.func, names)
    match node.func:
        case ast.Name(id=name):
            yield from _of_builtin(name, node, names, parent)
        case ast.Attribute(attr=attr) if attr in CALLED_METHODS and not called:
            yield CALLED_METHODS[attr], f".{attr}() of something that is not named"
        case ast.Attribute(attr="append" | "insert" | "extend", value=owner) if "sys.path" in meanings(owner, names):
            yield "dynamic-code", "sys.path is changed: modules come from another folder"
        case ast.Attribute(attr="get" | "pop" | "setdefault" | "__getitem__" | "items" | "values", value=owner):
            if "sys.modules" in meanings(owner, names):
                yield "dynamic-code", "sys.modules is searched"
        case ast.Attribute(attr="format", value=ast.Constant(value=str(text))) if "__" in text and "._" in text:
            yield "introspection", "a format that reaches for an attribute"
        case _:
            pass
    for meaning in called:
        yield from _of_library(meaning, node)
    for keyword in node.keywords:
        if keyword.arg == "trust_remote_code" and _is_true(keyword.value):
            yield "trust-remote-code", "trust_remote_code=True: code of whatever repository is loaded"


def _of_builtin(name: str, node: ast.Call, names: Names, parent: ast.AST | None) -> Iterator[tuple[Rule, str]]:
    if name in CALLED_BUILTINS and name not in names:
        yield "dynamic-code", f"{name}()"
    if name in ("getattr", "hasattr", "setattr", "delattr") and len(node.args) > 1:
        text = text_of(node.args[1])
        if text in _TELLING:
            yield "introspection", f"{name}(…, {text!r})"
        elif name == "getattr" and text is None and _is_computed_getattr(node.args[0]):
            yield "dynamic-code", "getattr() of getattr(), both under a name known only when it runs"
    if name in ("globals", "locals", "vars") and not node.args and _reaches_further(name, parent):
        yield "dynamic-code", f"{name}() is used to reach for a name"
    if name == "open" and len(node.args) > 1:
        target, mode = text_of(node.args[0]), text_of(node.args[1])
        if target is not None and mode is not None and target.endswith(_CODE_SUFFIXES) and set(mode) & set("wax+"):
            yield "dynamic-code", f"writes {target[-60:]!r}"
    if name in _REACHING or any(meaning in map("operator.{}".format, _REACHING) for meaning in names.get(name, ())):
        yield from _of_reaching(node)


def _of_library(meaning: str, node: ast.Call) -> Iterator[tuple[Rule, str]]:
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    match meaning:
        case "torch.load" | "torch.serialization.load":
            if not _is_true(given.get("weights_only")):
                yield "dynamic-code", "torch.load() without weights_only=True runs what a pickle says"
        case "numpy.load" | "numpy.lib.npyio.load" | "numpy.lib.format.read_array":
            value = given.get("allow_pickle", node.args[2] if len(node.args) > 2 else None)
            if value is not None and not (isinstance(value, ast.Constant) and value.value is False):
                yield "dynamic-code", f"{meaning}() with allow_pickle runs what a pickle says"
        case "yaml.load" | "yaml.load_all":
            loader = given.get("Loader", node.args[1] if len(node.args) > 1 else None)
            last = loader.attr if isinstance(loader, ast.Attribute) else getattr(loader, "id", "")
            if last not in _SAFE_LOADERS:
                yield "dynamic-code", f"{meaning}() without SafeLoader makes any object"
        case "operator.attrgetter" | "operator.methodcaller":
            yield from _of_reaching(node)
        case _:
            pass


def _of_reaching(node: ast.Call) -> Iterator[tuple[Rule, str]]:
    for argument in node.args[:1]:
        text = text_of(argument)
        if text is None:
            continue
        for part in text.split("."):
            if part in _TELLING:
                yield "introspection", f"an operator that reaches for {part!r}"


def _reaches_further(name: str, parent: ast.AST | None) -> bool:
    """Whether a namespace is used for more than a plain look at one name of its own."""
    match parent:
        case ast.Subscript(slice=ast.Constant(value=str(text))):
            return text in _TELLING or text in ("eval", "compile")
        case ast.Subscript():
            return True
        case ast.Attribute(attr=attr):
            return attr in ("get", "pop", "__getitem__", "setdefault", "items", "values")
        case ast.Assign() | ast.NamedExpr():
            return name == "globals"
        case _:
            return False


def _is_computed_getattr(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, name, *_]):
            return text_of(name) is None
        case _:
            return False


def _is_true(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
