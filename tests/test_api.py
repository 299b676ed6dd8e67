"""The public functions: the example of the documents runs, `import modelctl` is light, the commands call the same."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from modelctl import api
from modelctl.errors import InputError
from tests.support.models import tiny_llama

PROJECT = Path(__file__).resolve().parents[1]


def test_the_example_of_the_documents_runs(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "model")
    example = re.search(r"```python\n(.*?)```", (PROJECT / "docs" / "api.md").read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    done = subprocess.run(
        [sys.executable, "-c", example[1]], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["admitted 0", "integrity passed []", "True"]
    assert done.stderr == ""


def test_importing_modelctl_loads_nothing() -> None:
    program = "import sys, modelctl; print([name for name in sys.modules if name.startswith('modelctl')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['modelctl']"


@pytest.mark.parametrize("name", ["admit", "gate", "publish", "pull", "size"])
def test_the_commands_call_these_functions(name: str) -> None:
    text = (PROJECT / "pipeline" / "modelctl" / "cli" / f"{name}.py").read_text(encoding="utf-8")
    imported = {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    function = getattr(api, name)
    assert (function.__module__, name) in imported


def test_every_public_name_is_there_and_explained() -> None:
    for name in api.__all__:
        assert getattr(api, name).__doc__, name


def test_a_mistake_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no release tiny@1") as caught:
        api.publish(api.load_workspace(tmp_path), "tiny@1.0.0")
    assert caught.value.remedy
