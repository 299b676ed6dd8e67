"""`modelctl --help`, and the audit's timeline, are quick because they import nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.history import a_registry

HEAVY = (
    "torch",
    "transformers",
    "minio",
    "aiohttp",
    "rich",
    "pydantic",
    "huggingface_hub",
    "numpy",
    "ruamel",
    "psutil",
)
PROGRAM = """
import json, sys
from modelctl.cli.main import run
code = run(sys.argv[1:])
print(json.dumps({"code": code, "modules": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


def imported(*arguments: str, cwd: Path | None = None) -> tuple[str, set[str]]:
    """What a command prints, and the packages that it has loaded at its end."""
    command = [sys.executable, "-I", "-c", PROGRAM, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd)
    *lines, last = done.stdout.splitlines()
    answer = json.loads(last)
    assert answer["code"] == 0
    return "\n".join(lines), set(answer["modules"])


def test_help_imports_nothing_heavy() -> None:
    text, modules = imported("--help")
    assert "Usage: modelctl" in text
    assert not set(HEAVY) & modules


def test_the_timeline_imports_nothing_heavy(tmp_path: Path) -> None:
    registry = a_registry(tmp_path / "registry")
    registry.propose()
    registry.publish()
    text, modules = imported("audit", "--csv", "-", cwd=registry.root)
    assert "published,tiny@1.0.0" in text
    assert not set(HEAVY) & modules
