"""The locks satisfy pyproject.toml, and nothing is imported that they do not hold."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.tooling.scripts import ROOT, load_script

lock = load_script("scripts/lock.py")
OURS = {"modelctl", "tests"}
ELSEWHERE = ("gateway_hooks.py",)
"""What runs inside of another program and imports it."""


def test_the_locks_satisfy_pyproject() -> None:
    assert lock.unsatisfied() == []


def test_a_requirement_that_no_pin_satisfies_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in lock.FOLDER.glob("*.txt"):
        text = path.read_text(encoding="utf-8")
        (tmp_path / path.name).write_text(text.replace("click==", "click==1.0 # "), encoding="utf-8")
    monkeypatch.setattr(lock, "FOLDER", tmp_path)
    assert [problem for problem in lock.unsatisfied() if "click" in problem] == [
        "core.txt: pyproject.toml wants click>=8.2, the locks have 1.0 in core.txt"
    ]


def test_a_package_pinned_to_two_versions_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in lock.FOLDER.glob("*.txt"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with (tmp_path / "dev.txt").open("a", encoding="utf-8") as handle:
        handle.write("click==1.0\n")
    monkeypatch.setattr(lock, "FOLDER", tmp_path)
    assert [problem for problem in lock.unsatisfied() if problem.startswith("click")] == [
        f"click is {lock.read_pins(lock.FOLDER / 'core.txt')['click']} in core.txt and 1.0 in dev.txt"
    ]


def imported_by(path: Path) -> set[str]:
    """Top-level names of the packages that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    beside = {other.stem for other in path.parent.glob("*.py")}
    return names - OURS - beside - set(sys.stdlib_module_names)


@pytest.mark.slow
def test_everything_imported_is_locked() -> None:
    pinned = {name for path in lock.FOLDER.glob("*.txt") for name in lock.read_pins(path)}
    # the scanners that the benchmark compares with are pinned by it, in an environment of their own
    pinned |= set(re.findall(r'"([a-z]+)(?:\[\w+\])?==', (ROOT / "bench" / "scanners.py").read_text(encoding="utf-8")))
    owners = packages_distributions()
    for folder in ("pipeline", "tests", "scripts", "demo", "bench"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.name in ELSEWHERE:
                continue
            for name in imported_by(path):
                found = {lock.canonicalize_name(owner) for owner in owners.get(name, [name])}
                assert found & pinned, (
                    f"{path.relative_to(ROOT)} imports {name} ({', '.join(found)}): not in requirements/"
                )
