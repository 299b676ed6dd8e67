"""Progress of long work, told to an observer: the core never prints.

`Progress` opens tasks; a task is advanced in its own unit. The command line shows bars with rate and time left;
tests and libraries use `SILENT`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol

Unit = Literal["bytes", "files", "layers", "steps", "documents", "requests", "seconds"]


class Task(Protocol):
    """One piece of long work that is being watched."""

    def advance(self, amount: float = 1) -> None:
        """Say that `amount` more units are done."""

    def describe(self, detail: str) -> None:
        """Replace the short text beside the bar (the file in work, live figures)."""


class Progress(Protocol):
    """Where work reports to."""

    def task(self, label: str, *, total: float | None, unit: Unit) -> AbstractContextManager[Task]:
        """Open a task of `total` units (None when the end is not known) for the time of a `with` block."""

    def note(self, message: str) -> None:
        """Say one line that matters to a person who waits (a service started, a cache reused)."""


class _SilentTask:
    def advance(self, amount: float = 1) -> None:
        pass

    def describe(self, detail: str) -> None:
        pass


class _Silent:
    @contextmanager
    def task(self, label: str, *, total: float | None, unit: Unit) -> Iterator[Task]:
        yield _SilentTask()

    def note(self, message: str) -> None:
        pass


SILENT: Progress = _Silent()
