"""Which rules the checks can find, read from their source without running it.

A finding is made by a call whose first argument, or whose keyword `rule`, is the rule's own name; the file it stands in
says which checks it belongs to. The problems that `model/` tells apart become rules of integrity by their `kind`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from modelctl.checks import CHECK_IDS

PACKAGE = Path(__file__).resolve().parent.parent / "pipeline" / "modelctl"
MAKERS = {"find", "problem", "_problem", "finding", "_finding"}
SHARED = {
    "checks/stress/judge.py": ("concurrency",),
    "checks/stress/crosstalk.py": ("concurrency",),
    "checks/stress/seats.py": ("concurrency",),
    "checks/stress/length": ("long-context",),
    "checks/stress/over_maximum.py": ("long-context",),
    "checks/stress/": ("long-context", "concurrency"),
    "tokenization/": ("tokenizer",),
    "accuracy/": ("quantization",),
}
"""Files and folders whose findings belong to checks of other names; the first that fits counts."""
KINDS = {
    "ProvenanceProblem": "", "PathProblem": "", "FileProblem": "", "WeightProblem": "", "IndexProblem": "index-",
    "SplitProblem": "gguf-",
}  # fmt: skip
"""What `model/` calls a problem, and what its kind is prefixed with as a rule of integrity."""
TABLES = ("malware", "code")
"""Checks with a table `_REMEDIES` in one of their modules, with a line for each rule."""
PUT_TOGETHER = {f"tokenizer.{role}-token" for role in ("bos", "eos", "pad")} | {"concurrency.ttft", "concurrency.tpot"}
"""Rules whose names are put together when the check runs, so that no reading finds them."""


def owners(path: Path) -> tuple[str, ...]:
    """The checks whose findings a file makes."""
    name = path.relative_to(PACKAGE).as_posix()
    for folder, checks in SHARED.items():
        if name.startswith(folder):
            return checks
    for check_id in CHECK_IDS:
        module = check_id.replace("-", "_")
        if name == f"checks/{module}.py" or name.startswith((f"checks/{module}_", f"checks/{module}/")):
            return (check_id,)
    return ()


def constants(node: ast.expr, module: ast.AST) -> Iterator[str]:
    """The strings that an expression may be: itself, a branch, or what its name is set to elsewhere in the module."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.JoinedStr(values=[*_, ast.Constant(value=str() as text)]) if text.startswith("."):
            yield text[1:]
        case ast.IfExp(body=body, orelse=orelse):
            yield from constants(body, module)
            yield from constants(orelse, module)
        case ast.Name(id=name):
            for statement in ast.walk(module):
                match statement:
                    case ast.Assign(targets=[ast.Name(id=target)], value=ast.Constant() | ast.IfExp() as value):
                        yield from constants(value, module) if target == name else ()


def calls(path: Path) -> Iterator[tuple[str, ast.Call, ast.AST]]:
    """Every call of a file: the last part of what is called, the call, the module."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""), node, module


def keyword(call: ast.Call, name: str) -> list[ast.expr]:
    """The value of a keyword argument, if it is given."""
    return [item.value for item in call.keywords if item.arg == name]


def remedies(path: Path) -> Iterator[str]:
    """The keys of a module's table `_REMEDIES`."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="_REMEDIES")], value=ast.Dict(keys=keys)):
                pass
            case ast.AnnAssign(target=ast.Name(id="_REMEDIES"), value=ast.Dict(keys=keys)):
                pass
            case _:
                continue
        yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


def rules() -> set[str]:
    """Every rule, as `<check>.<rule>`."""
    found = set(PUT_TOGETHER)
    for path in PACKAGE.rglob("*.py"):
        for check_id in owners(path):
            for called, call, module in calls(path):
                first = call.args[:1] if called in MAKERS else []
                for value in (*keyword(call, "rule"), *first):
                    for rule in constants(value, module):
                        found.add(rule if "." in rule else f"{check_id}.{rule}")
    for check_id in TABLES:
        for path in (PACKAGE / "checks").glob(f"{check_id}*.py"):
            found.update(f"{check_id}.{rule}" for rule in remedies(path))
    for path in (PACKAGE / "model").glob("*.py"):
        for called, call, module in calls(path):
            if called in KINDS:
                for value in keyword(call, "kind"):
                    found.update(f"integrity.{KINDS[called]}{kind}" for kind in constants(value, module))
    return found
