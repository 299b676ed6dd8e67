"""What the isolated child answers: problems, figures and coverage, as plain documents that cross the process boundary.

A `Ledger` gathers while the child looks; `Ledger.report` closes it. Text of the model goes through `shown`, so that no
control character of it reaches a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from modelctl.documents import Document

SHOWN_CHARACTERS = 80
SHOWN_ITEMS = 5


class Problem(Document):
    """One reason to refuse; `rule` is without the check's name."""

    rule: str
    message: str
    remedy: str
    path: str | None = None


class Doubt(Document):
    """Something that could not be decided."""

    reason: str
    remedy: str | None = None


class Figure(Document):
    """One measured value with the parameters that move it; `unit` is "" for counts and ratios."""

    name: str
    value: str | int | float | bool | None
    unit: str = ""
    parameters: Mapping[str, str | int | float | bool | None]


class Report(Document):
    """Everything the child saw. Counts are of things that were really looked at."""

    problems: tuple[Problem, ...]
    doubts: tuple[Doubt, ...]
    warnings: tuple[str, ...]
    figures: tuple[Figure, ...]
    tools: dict[str, str]
    files: tuple[str, ...]
    files_total: int
    texts: int
    texts_total: int
    templates: int
    templates_total: int
    excluded: tuple[str, ...]


@dataclass(kw_only=True)
class Ledger:
    """Gathers what is seen, in the order in which it is seen."""

    problems: list[Problem] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    tools: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    files_total: int = 0
    excluded: list[str] = field(default_factory=list)
    texts: int = 0
    texts_total: int = 0
    templates: int = 0
    templates_total: int = 0

    def problem(self, rule: str, message: str, *, remedy: str, path: str | None = None) -> None:
        """Write down a reason to refuse, once."""
        problem = Problem(rule=rule, message=message, remedy=remedy, path=path)
        if problem not in self.problems:
            self.problems.append(problem)

    def doubt(self, reason: str, *, remedy: str | None = None) -> None:
        """Write down what could not be decided."""
        self.doubts.append(Doubt(reason=reason, remedy=remedy))

    def figure(
        self, name: str, value: str | int | float | bool | None, *, unit: str = "", **parameters: str | int | float
    ) -> None:
        """Write down a measured value."""
        self.figures.append(Figure(name=name, value=value, unit=unit, parameters=dict(parameters)))

    def report(self) -> Report:
        """All of it, closed."""
        return Report(
            problems=tuple(self.problems),
            doubts=tuple(self.doubts),
            warnings=tuple(self.warnings),
            figures=tuple(self.figures),
            tools=self.tools,
            files=tuple(self.files),
            files_total=self.files_total,
            texts=self.texts,
            texts_total=self.texts_total,
            templates=self.templates,
            templates_total=self.templates_total,
            excluded=tuple(self.excluded),
        )

    def absorb(self, answer: JsonValue) -> None:
        """Take over what a bounded grandchild wrote (`Report.model_dump(mode="json")`)."""
        other = Report.model_validate(answer)
        self.problems += other.problems
        self.doubts += other.doubts
        self.warnings += other.warnings
        self.figures += other.figures
        self.tools |= other.tools
        self.files += other.files
        self.files_total += other.files_total
        self.excluded += other.excluded
        self.texts += other.texts
        self.texts_total += other.texts_total
        self.templates += other.templates
        self.templates_total += other.templates_total


def shown(text: object, characters: int = SHOWN_CHARACTERS) -> str:
    """A model's text for a message: quoted, unprintable characters escaped, cut in the middle when long."""
    words = repr(text)
    if len(words) <= characters:
        return words
    half = (characters - 1) // 2
    return f"{words[:half]}…{words[-half:]}"


def listed(items: Iterable[object], *, count: int | None = None) -> str:
    """The first few items, and how many more there are."""
    every = list(items)
    total = len(every) if count is None else count
    words = ", ".join(str(item) for item in every[:SHOWN_ITEMS])
    return f"{words} and {total - SHOWN_ITEMS} more" if total > SHOWN_ITEMS else words


def around(left: Sequence[object], right: Sequence[object]) -> str:
    """Both sequences near their first difference."""
    at = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    begin = max(0, at - 5)
    return f"{shown(left[begin : at + 15])} became {shown(right[begin : at + 15])} at position {at}"
