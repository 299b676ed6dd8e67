"""The wheel holds what the installed program reads, the sdist builds the same one, and its core alone works."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from modelctl.cli.main import COMMANDS
from tests.support.models import tiny_llama

PROJECT = Path(__file__).resolve().parents[2]
NEEDED = (
    "modelctl/py.typed",
    "modelctl/policies/production.yaml",
    "modelctl/policies/demo.yaml",
    "modelctl/accuracy/data/calibration.txt",
    "modelctl/accuracy/tasks/modelctl_easy.jsonl",
    "modelctl/accuracy/tasks/modelctl_easy.yaml",
    "modelctl/repository/templates/README.md",
    "modelctl/repository/templates/github/workflows/admit.yml",
    "modelctl/repository/templates/policies/cluster/policy.yaml",
    "modelctl/repository/templates/gitops/environment.yaml",
)
OWN = ("modelctl/policies/allowed_signers", "modelctl/policies/cluster/published.yaml")
"""What this repository has decided for itself."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist of this tree."""
    folder = tmp_path_factory.mktemp("built")
    build(PROJECT, folder)
    return folder


def build(source: Path, out: Path, *options: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(out), *options]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def names_of(folder: Path) -> set[str]:
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_data_file_and_nothing_of_ours_alone(built: Path) -> None:
    names = names_of(built)
    assert set(NEEDED) <= names
    assert names.isdisjoint(OWN)
    assert not [name for name in names if not name.startswith(("modelctl/", "modelctl-"))]
    (wheel,) = built.glob("*.whl")
    assert (PROJECT / "policies" / "production.yaml").read_bytes() == zipfile.ZipFile(wheel).read(NEEDED[1])


def test_the_sdist_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    build(source, tmp_path / "again", "--target", "wheel")
    assert names_of(tmp_path / "again") == names_of(built)


@pytest.mark.slow
def test_with_its_core_alone_every_command_tells_its_help_and_which_extra_it_lacks(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    program = "from modelctl.__main__ import main; import sys; sys.argv = ['modelctl', *sys.argv[1:]]; main()"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(python), "-I", "-c", program, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    for name in COMMANDS:
        done = run(name, "--help")
        assert done.returncode == 0, done.stderr
        assert f"Usage: modelctl {name}" in done.stdout
    tiny_llama(tmp_path / "model")
    lacking = run("admit", "model", "--policy", "demo", "--check", "tokenizer")
    assert lacking.returncode == 3, lacking.stdout + lacking.stderr
    assert "modelctl[tokenizer]" in lacking.stdout
