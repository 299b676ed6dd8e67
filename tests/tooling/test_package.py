"""The wheel holds what the installed program reads: policies, questions, calibration text and the typing marker."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
NEEDED = (
    "modelctl/py.typed",
    "modelctl/policies/production.yaml",
    "modelctl/policies/demo.yaml",
    "modelctl/accuracy/data/calibration.txt",
    "modelctl/accuracy/tasks/modelctl_easy.jsonl",
    "modelctl/accuracy/tasks/modelctl_easy.yaml",
)


def test_the_wheel_holds_every_data_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert set(NEEDED) <= names
    assert not [name for name in names if name.startswith(("tests/", "demo/"))]
    assert (PROJECT / "policies" / "production.yaml").read_bytes() == zipfile.ZipFile(wheel).read(NEEDED[1])
