"""`modelctl --help`, and the audit's timeline, are quick because they import nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from modelctl.admission.policy import load_policy
from modelctl.checks import CHECK_IDS
from tests.support.evidence import checked, leave, runner_report
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


def test_the_gate_loads_no_check_and_nothing_that_talks_to_a_store(tmp_path: Path) -> None:
    """It judges what checks have left; its start is most of its time."""
    policy = load_policy("demo", tmp_path)
    leave(tmp_path / "cpu", runner_report([checked("code", policy)], policy, release_sha256=None))
    program = (
        "import json, sys; from modelctl.cli.main import run; run(sys.argv[1:]); print(json.dumps([*sys.modules]))"
    )
    command = [sys.executable, "-I", "-c", program, "gate", "cpu", "--policy", "demo"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert "REFUSED" in done.stdout
    modules = set(json.loads(done.stdout.splitlines()[-1]))
    assert "modelctl.admission.gate" in modules
    assert not {f"modelctl.checks.{check_id.replace('-', '_')}" for check_id in CHECK_IDS} & modules
    assert not {"modelctl.model.sources", "modelctl.model.s3_client", "sigstore", "cel_expr_python"} & modules
    assert not {name for name in HEAVY if name not in ("pydantic", "rich", "ruamel")} & modules
