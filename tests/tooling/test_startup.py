"""`modelctl --help` is quick because it imports nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys

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
code = run(["--help"])
print(json.dumps({"code": code, "modules": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


def test_help_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-I", "-c", PROGRAM], check=True, capture_output=True, text=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["code"] == 0
    assert "Usage: modelctl" in done.stdout
    assert not set(HEAVY) & set(answer["modules"])
