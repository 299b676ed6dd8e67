"""Progress bars on stderr: what, how far, at which rate, how long still. Lines instead of bars where nobody watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from modelctl.cli.terminal import is_dumb
from modelctl.progress import SILENT, Progress, Task, Unit

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

LINE_EVERY_S = 30.0


@contextmanager
def shown(*, quiet: bool = False) -> Iterator[Progress]:
    """The progress display for the time of a command."""
    if quiet:
        yield SILENT
    elif not sys.stderr.isatty() or is_dumb():
        yield _Lines()
    else:
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        from modelctl.cli.output import console

        columns = (
            TextColumn("{task.description:<24.24}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]:>12}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[detail]:.50}", style="dim"),
        )
        with Progress(*columns, console=console(stderr=True), transient=True) as bars:
            yield _Bars(bars)


class _Bars:
    def __init__(self, bars: Bars) -> None:
        self._bars = bars

    @contextmanager
    def task(self, label: str, *, total: float | None, unit: Unit) -> Iterator[Task]:
        identity = self._bars.add_task(label, total=total, rate="", detail="")
        try:
            yield _Bar(self._bars, identity, unit)
        finally:
            self._bars.remove_task(identity)

    def note(self, message: str) -> None:
        self._bars.console.print(f"· {message}", style="dim")


class _Bar:
    def __init__(self, bars: Bars, identity: TaskID, unit: Unit) -> None:
        self._bars = bars
        self._identity = identity
        self._unit: Unit = unit
        self._done = 0.0
        self._began = time.monotonic()

    def advance(self, amount: float = 1) -> None:
        self._done += amount
        elapsed = time.monotonic() - self._began
        rate = rate_text(self._done / elapsed, self._unit) if elapsed > 0.5 else ""
        self._bars.update(self._identity, advance=amount, rate=rate)

    def describe(self, detail: str) -> None:
        self._bars.update(self._identity, detail=detail)


class _Lines:
    """For logs: a line when a task ends, and one every half minute while it runs."""

    @contextmanager
    def task(self, label: str, *, total: float | None, unit: Unit) -> Iterator[Task]:
        line = _Line(label, total, unit)
        yield line
        line.finish()

    def note(self, message: str) -> None:
        print(f"· {message}", file=sys.stderr, flush=True)  # noqa: T201 - this is the log


class _Line:
    def __init__(self, label: str, total: float | None, unit: Unit) -> None:
        self._label = label
        self._total = total
        self._unit: Unit = unit
        self._done = 0.0
        self._detail = ""
        self._began = time.monotonic()
        self._said = self._began

    def advance(self, amount: float = 1) -> None:
        self._done += amount
        if time.monotonic() - self._said > LINE_EVERY_S:
            self._say("…")

    def describe(self, detail: str) -> None:
        self._detail = detail

    def finish(self) -> None:
        if time.monotonic() - self._began > 1.0:
            self._say("done")

    def _say(self, state: str) -> None:
        self._said = time.monotonic()
        elapsed = self._said - self._began
        share = f" {self._done / self._total:.0%}" if self._total else ""
        rate = rate_text(self._done / elapsed, self._unit) if elapsed > 0 and self._done else ""
        left = ""
        if self._total and 0 < self._done < self._total:
            left = f", {elapsed * (self._total - self._done) / self._done:.0f} s left,"
        words = f"· {self._label}{share} {state} {elapsed:.0f} s{left} {rate} {self._detail}"
        print(words.rstrip(), file=sys.stderr, flush=True)  # noqa: T201 - this is the log


def rate_text(per_second: float, unit: Unit) -> str:
    """A rate for people: `740 MB/s`, `3.2 documents/s`."""
    if unit == "seconds":
        return ""
    if unit == "bytes":
        return f"{per_second / 1e6:.0f} MB/s"
    return f"{per_second:.1f} {unit}/s"
