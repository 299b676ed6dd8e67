"""Measure modelctl beside well-known tools, in one run, so that the ratios hold on any machine.

Two figures: the start of `modelctl --help` against `hf --help` (the Hugging Face Hub's command line, also a click
program), and hashing one file against `sha256sum` and `openssl dgst -sha256`. The runs of the tools alternate, and the
smallest time counts: what else the machine does can only add to it. `--json FILE` writes the figures with everything
that moves them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from modelctl.model.tree import hash_file

BIN = Path(sys.executable).parent
START_LIMIT = 0.25
"""`modelctl --help` takes less than this share of `hf --help`."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Smallest times in seconds, ours first, and what they were measured with."""

    name: str
    seconds: Mapping[str, float]
    rounds: int
    parameters: Mapping[str, str | int]

    def ratio(self, other: str) -> float:
        """Our time as a share of another's."""
        return next(iter(self.seconds.values())) / self.seconds[other]


def smallest(tools: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """The smallest time of each tool over `rounds` alternating runs, after one that warms the caches."""
    times: dict[str, list[float]] = {name: [] for name in tools}
    for number in range(rounds + 1):
        for name, call in tools.items():
            begin = time.perf_counter()
            call()
            if number:
                times[name].append(time.perf_counter() - begin)
    return {name: min(seconds) for name, seconds in times.items()}


def quietly(*command: str | Path) -> Callable[[], object]:
    """A call that runs a command and needs it to succeed."""
    return lambda: subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def start(rounds: int) -> Comparison:
    """Start-up: from the process's start to the end of its help text."""
    tools = {"modelctl": quietly(BIN / "modelctl", "--help"), "hf": quietly(BIN / "hf", "--help")}
    return Comparison(
        name="start-up (--help)",
        seconds=smallest(tools, rounds=rounds),
        rounds=rounds,
        parameters={"huggingface_hub": version("huggingface_hub"), "click": version("click")},
    )


def hashing(rounds: int, size_mb: int) -> Comparison:
    """sha256 of one file of random bytes that is in the page cache: the function that makes every tree digest."""
    with tempfile.TemporaryDirectory(prefix="modelctl-bench-") as folder:
        path = Path(folder, "weights.bin")
        block = os.urandom(1_000_000)
        with path.open("wb") as stream:
            for _ in range(size_mb):
                stream.write(block)
        tools: dict[str, Callable[[], object]] = {
            "modelctl": lambda: hash_file(path),
            "sha256sum": quietly("sha256sum", path),
        }
        if shutil.which("openssl"):
            tools["openssl"] = quietly("openssl", "dgst", "-sha256", path)
        return Comparison(
            name="sha256 of one file",
            seconds=smallest(tools, rounds=rounds),
            rounds=rounds,
            parameters={"size_mb": size_mb, "python": platform.python_version()},
        )


def main() -> int:
    """Measure, print, and fail when the start-up is over its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each tool (default: 7)")
    parser.add_argument("--size-mb", type=int, default=256, help="size of the hashed file (default: 256)")
    options = parser.parse_args()
    comparisons = [start(options.rounds), hashing(options.rounds, options.size_mb)]
    for comparison in comparisons:
        print(f"{comparison.name}, smallest of {comparison.rounds}")
        for tool, seconds in comparison.seconds.items():
            share = "" if tool == "modelctl" else f"   modelctl takes {comparison.ratio(tool):.2f} of it"
            print(f"  {tool:<10} {seconds * 1000:8.1f} ms{share}")
    if options.json:
        machine = {"cpu_count": os.cpu_count(), "machine": platform.machine(), "system": platform.system()}
        document = {"machine": machine, "comparisons": [asdict(comparison) for comparison in comparisons]}
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    if comparisons[0].ratio("hf") >= START_LIMIT:
        print(
            f"start-up is over {START_LIMIT:.0%} of hf's; `python -X importtime` shows what is imported",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
