"""Imports go one way: a later layer may use an earlier one, never the reverse."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.tooling.scripts import PACKAGE

LAYERS = (
    {
        "__init__",
        "errors",
        "progress",
        "documents",
        "field_docs",
        "settings",
        "isolation",
        "watching",
        "worker",
        "git",
        "files",
        "page",
    },
    {"services"},
    {"model"},
    {"scan", "accuracy", "serving", "sizing", "tokenization"},
    {"checks"},
    {"admission"},
    {"registry"},
    {"rollout"},
    {"audit", "repository"},
    {"api"},
    {"cli", "__main__"},
)
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
MAXIMUM_LINES = 400
MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """The first part of a module's name below the package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def parts_imported(path: Path) -> set[str]:
    """The parts of the package that a module imports, at any depth."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    parts = {name.split(".")[1] for name in names if name.startswith("modelctl.")}
    return {"__init__" if part == "__version__" else part for part in parts}


def identity(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", MODULES, ids=identity)
def test_a_module_imports_only_earlier_layers(path: Path) -> None:
    part = part_of(path)
    assert part in RANK, f"{part} is in no layer: give it a place in LAYERS"
    later = {name for name in parts_imported(path) if RANK[name] > RANK[part]}
    assert not later, f"{identity(path)} is in '{part}' and imports the later {sorted(later)}"


@pytest.mark.parametrize("path", MODULES, ids=identity)
def test_a_module_has_one_job_and_says_which(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), f"{identity(path)} does not say what it is for"
    assert len(text.splitlines()) < MAXIMUM_LINES, f"{identity(path)} has grown a second job: split it"
