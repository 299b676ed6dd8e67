"""Progress that remembers what a person would have been told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from modelctl.progress import SILENT, Task, Unit


@dataclass
class Notes:
    """An observer that keeps the notes."""

    lines: list[str] = field(default_factory=list)

    @contextmanager
    def task(self, label: str, *, total: float | None, unit: Unit) -> Iterator[Task]:
        with SILENT.task(label, total=total, unit=unit) as task:
            yield task

    def note(self, message: str) -> None:
        self.lines.append(message)
