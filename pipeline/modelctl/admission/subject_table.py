"""The accuracy of both models subject by subject, for the terminal, those that lost most first; and their bits per
byte."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelctl.admission.report import CheckReport
from modelctl.checks.base import Measurement

if TYPE_CHECKING:
    from rich.console import RenderableType

SUBJECTS_SHOWN = 12
"""A table for people; the report has them all."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What both models answered of one subject."""

    name: str
    questions: int
    baseline_correct: int
    lost: int
    gained: int

    @property
    def change(self) -> int:
        """Answers that the candidate has more of; negative when it has fewer."""
        return self.gained - self.lost


def subjects(check: CheckReport) -> list[Counts]:
    """The subjects of a report, those that lost most first."""
    found = [_counts(item) for item in check.measurements if item.name == "subject-change"]
    return sorted(found, key=lambda item: (item.change, -item.questions, item.name))


def subject_table(check: CheckReport) -> Iterable[RenderableType]:
    """The table, where the check measured subjects; else nothing."""
    from rich.table import Table
    from rich.text import Text

    found = subjects(check)
    if not found:
        return
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("subject", overflow="fold")
    for heading in ("questions", "original", "served", "lost", "gained", "change"):
        table.add_column(heading, justify="right", no_wrap=True)
    total = Counts(
        name="all",
        questions=sum(item.questions for item in found),
        baseline_correct=sum(item.baseline_correct for item in found),
        lost=sum(item.lost for item in found),
        gained=sum(item.gained for item in found),
    )
    for item in (*found[:SUBJECTS_SHOWN], total):
        shown = "".join(letter if letter.isprintable() else "?" for letter in item.name)
        before, after = (
            correct / item.questions for correct in (item.baseline_correct, item.baseline_correct + item.change)
        )
        table.add_row(
            shown,
            f"{item.questions:,}",
            f"{before:.1%}",
            f"{after:.1%}",
            str(item.lost),
            str(item.gained),
            f"{item.change:+d}",
        )
    yield Text("")
    yield table
    if len(found) > SUBJECTS_SHOWN:
        yield Text(f"and {len(found) - SUBJECTS_SHOWN} more subjects in the report", style="dim")
    for measured in check.measurements:
        if measured.name == "bits-per-byte-rise":
            original, served = measured.parameters["baseline"], measured.parameters["candidate"]
            yield Text(f"bits per byte of the shipped texts: original {original}, served {served}", style="dim")


def _counts(item: Measurement) -> Counts:
    counts = {name: int(str(item.parameters[name])) for name in ("questions", "baseline_correct", "lost", "gained")}
    return Counts(name=str(item.parameters["subject"]), **counts)
