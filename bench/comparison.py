"""Runs of several tools in turn, and the table of what came out.

A figure is a ratio of two medians from alternating runs on the same bytes in the page cache, after one run of each that
does not count: what else the machine does meets all of them alike. Times alone say more of the machine than of the
program.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

Call = Callable[[], object]
MEMORY_MIB = 150
"""What any pass over a model may need above an interpreter with the same libraries, whatever the model's size."""
_PEAK = "\nprint(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
"""Not getrusage: its figure begins with what the parent had."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure of ours beside another: `ours` and `other` in `unit`, and the ratio that is wanted at most."""

    figure: str
    ours: float
    beside: str
    other: float
    unit: str = "s"
    at_most: float | None = None
    """What `ratio` may be; None for a figure that nothing was promised of."""
    parameters: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Ours as a share of the other."""
        return self.ours / self.other

    @property
    def missed(self) -> bool:
        """Whether more was promised than was measured."""
        return self.at_most is not None and self.ratio > self.at_most


def medians(tools: Mapping[str, Call], *, rounds: int, before: Mapping[str, Call] | None = None) -> dict[str, float]:
    """The median time in seconds of each tool; `before` is run before a tool's every run and is not counted."""
    times: dict[str, list[float]] = {name: [] for name in tools}
    for number in range(rounds + 1):
        for name in sorted(tools, reverse=bool(number % 2)):
            (before or {}).get(name, _nothing)()
            begin = time.perf_counter()
            tools[name]()
            if number:
                times[name].append(time.perf_counter() - begin)
    return {name: median(seconds) for name, seconds in times.items()}


def beside(
    figure: str, times: Mapping[str, float], ours: str, *, at_most: Mapping[str, float], **parameters: str | int | float
) -> list[Row]:
    """A row for each of the other tools."""
    return [
        Row(
            figure=figure, ours=times[ours], beside=name, other=seconds, at_most=at_most.get(name),
            parameters=parameters,
        )
        for name, seconds in times.items()
        if name != ours
    ]  # fmt: skip


def quietly(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Call:
    """A call that runs a command and needs it to succeed."""

    def run() -> None:
        done = subprocess.run(
            command, check=False, capture_output=True, stdin=subprocess.DEVNULL, cwd=cwd, env=env, text=True
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")

    return run


@contextmanager
def one_core() -> Iterator[None]:
    """This process and the ones that it starts on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def peak_memory(
    figure: str, program: str, folder: Path, *, parameters: Mapping[str, str | int | float], libraries: str = ""
) -> Row:
    """What a Python program that is given a folder needs over one that only imports `libraries`, beside the limit."""
    bare = _peak_mib(libraries, folder)
    used = _peak_mib(program, folder) - bare
    return Row(
        figure=figure, ours=used, beside="the limit, over the interpreter", other=MEMORY_MIB, unit="MiB", at_most=1.0,
        parameters={**parameters, "interpreter_mib": bare},
    )  # fmt: skip


def _peak_mib(program: str, folder: Path) -> float:
    command = [sys.executable, "-I", "-c", program + _PEAK, str(folder)]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout) / 1024


def table(rows: Iterable[Row]) -> str:
    """The rows in Markdown; a ratio over what was promised is marked."""
    lines = [("figure", "modelctl", "beside", "its figure", "ratio", "wanted at most")]
    for row in rows:
        wanted = "" if row.at_most is None else f"{row.at_most:.2f}"
        ratio = f"{row.ratio:.2f}" + (" (missed)" if row.missed else "")
        lines.append((row.figure, _shown(row.ours, row.unit), row.beside, _shown(row.other, row.unit), ratio, wanted))
    return markdown(lines)


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Rows of cells as a table; the first is its head."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rule = ["-" * width for width in widths]
    return "\n".join(_line(line, widths) for line in (lines[0], rule, *lines[1:]))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def _shown(value: float, unit: str) -> str:
    return f"{value * 1000:.0f} ms" if unit == "s" and value < 10 else f"{value:.3g} {unit}"


def _nothing() -> None:
    pass
