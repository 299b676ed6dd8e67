"""How each finding is mended, in the words of the code, read from its source without running it.

A remedy stands beside the rule: as the keyword `remedy`, as the third argument of a call that makes a finding, or in a
module's table `_REMEDIES`. What is only known when a check runs is an ellipsis.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

import rules
from modelctl.checks import CHECK_IDS

UNKNOWN = "…"
OF_KIND = {
    "PathProblem": "PATH_REMEDY", "IndexProblem": "INDEX_REMEDY", "SplitProblem": "SPLIT_REMEDY",
}  # fmt: skip
"""What `model/` calls a problem, and the constant by which integrity says how to mend it. The others are in its table,
or are mended by taking all files from one commit."""


@cache
def constants() -> Mapping[str, ast.expr]:
    """Every name that a module of the checks sets to a text."""
    found: dict[str, ast.expr] = {}
    for folder in ("checks", "tokenization", "admission"):
        for path in sorted((rules.PACKAGE / folder).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                match node:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.lstrip("_").isupper():
                        found.setdefault(name, value)
    return found


def words(node: ast.expr, module: ast.AST) -> list[str]:
    """The texts that an expression may be."""
    match node:
        case ast.Constant(value=value):
            return [value] if isinstance(value, str) else []
        case ast.JoinedStr(values=parts):
            made = [""]
            for part in parts:
                inner = part.value if isinstance(part, ast.FormattedValue) else part
                made = [head + tail for head in made for tail in words(inner, module) or [UNKNOWN]]
            return made
        case ast.IfExp(body=body, orelse=orelse):
            return words(body, module) + words(orelse, module)
        case ast.BoolOp(values=values):
            return [text for value in values for text in words(value, module)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [
                head + tail for head in words(left, module) or [UNKNOWN] for tail in words(right, module) or [UNKNOWN]
            ]
        case ast.Name(id=name):
            return [text for value in assigned(name, module) for text in words(value, module)]
    return []


def assigned(name: str, module: ast.AST) -> list[ast.expr]:
    """What a name is set to in its module, else the constant of that name elsewhere."""
    here: list[ast.expr] = []
    for node in ast.walk(module):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                here.append(value)
    if not here and name in constants():
        return [constants()[name]]
    return here


def tables() -> Iterator[tuple[str, str]]:
    """Rule and remedy of every table `_REMEDIES` of the checks."""
    for check_id in CHECK_IDS:
        for path in sorted((rules.PACKAGE / "checks").glob(f"{check_id.replace('-', '_')}*.py")):
            module = ast.parse(path.read_text(encoding="utf-8"))
            for node in module.body:
                match node:
                    case ast.Assign(targets=[ast.Name(id="_REMEDIES")], value=ast.Dict() as table):
                        pass
                    case ast.AnnAssign(target=ast.Name(id="_REMEDIES"), value=ast.Dict() as table):
                        pass
                    case _:
                        continue
                for key, value in zip(table.keys, table.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield from ((f"{check_id}.{key.value}", text) for text in words(value, module))


def beside() -> Iterator[tuple[str, str]]:
    """Rule and remedy of every call that names both."""
    for path in sorted(rules.PACKAGE.rglob("*.py")):
        for check_id in rules.owners(path) or (("policy",) if path.parent.name == "admission" else ()):
            for called, call, module in rules.calls(path):
                first = call.args[:1] if called in rules.MAKERS else []
                given = rules.keyword(call, "remedy") or (call.args[2:3] if first and check_id != "policy" else [])
                named = [
                    rule for value in (*rules.keyword(call, "rule"), *first) for rule in rules.constants(value, module)
                ]
                for rule in named or (put_together(first[0], module, check_id) if first else []):
                    whole = rule if "." in rule else f"{check_id}.{rule}"
                    yield from ((whole, text) for item in given for text in words(item, module))


def put_together(node: ast.expr, module: ast.AST, check_id: str) -> list[str]:
    """The rules that a name may be which is put together when the check runs."""
    ours = [rule for rule in sorted(rules.PUT_TOGETHER) if rule.startswith(f"{check_id}.")]
    match node:
        case ast.JoinedStr(values=[*_, ast.Constant(value=str() as end)]):
            return [rule for rule in ours if rule.endswith(end)]
        case ast.Name():
            there = {item.value for item in ast.walk(module) if isinstance(item, ast.Constant)}
            return [rule for rule in ours if rule.partition(".")[2] in there]
    return []


def of_kinds() -> Iterator[tuple[str, str]]:
    """Rule and remedy of the problems that `model/` tells apart."""
    for path in sorted((rules.PACKAGE / "model").glob("*.py")):
        for called, call, module in rules.calls(path):
            for value in rules.keyword(call, "kind") if called in rules.KINDS else []:
                given = rules.keyword(call, "remedy") or [constants()[OF_KIND.get(called, "_TOGETHER")]]
                for kind in rules.constants(value, module):
                    rule = f"integrity.{rules.KINDS[called]}{kind}"
                    yield from ((rule, text) for item in given for text in words(item, module))


def remedies() -> Mapping[str, tuple[str, ...]]:
    """Every rule's remedies, each once."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for rule, text in (*tables(), *beside()):
        found[rule][text.strip()] = None
    for rule, text in of_kinds():
        if rule not in found or rule.startswith(("integrity.owner", "integrity.unpinned")):
            found[rule][text.strip()] = None
    return {rule: tuple(texts) for rule, texts in found.items()}
