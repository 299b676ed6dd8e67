"""All of a tree that may be code, as `code_files` gathers it for the child that parses and the check that judges."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal

Rule = Literal[
    "auto-map", "custom-pipeline", "trust-remote-code", "hub-kernel", "unreadable-json", "unreadable-python",
    "unreadable-gguf", "template", "secret", "native-binary", "compiled-python", "yaml-object", "process",
    "dynamic-code", "requirements",
]  # fmt: skip

MAX_SOURCE_BYTES = 512 << 20
"""Of all texts of one tree that may be Python: they are held in memory."""
MAX_TEMPLATE_CHARACTERS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a text lies: a file, or a member of an archive (`model.zip!setup.py`)."""

    path: str
    label: str

    @property
    def name(self) -> str:
        """The path of the text itself, in the tree or in its archive."""
        return self.label.rpartition("!")[2]

    @property
    def suffix(self) -> str:
        """The extension in small letters."""
        return PurePosixPath(self.name).suffix.lower()


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Source to be parsed as Python. `certain`: its name or place says that it is; else its content has to."""

    path: str
    label: str
    """The path, for a notebook with the cell, for an archive with the member."""
    source: bytes
    certain: bool


@dataclass(frozen=True, kw_only=True)
class Template:
    """A chat template and where it was found."""

    path: str
    label: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A reason to refuse that needs no parser of code. `own`: the code is the repository's, and examined."""

    rule: Rule
    path: str
    detail: str
    own: bool = False


@dataclass(kw_only=True)
class Gathered:
    """Everything in a tree that may be code."""

    files: frozenset[str] = frozenset()
    """The paths of the whole tree."""
    units: list[Unit] = field(default_factory=list)
    templates: list[Template] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    source_bytes: int = 0
    """Of all units, and of those that were too many."""
    unread: list[str] = field(default_factory=list)
    """What was not looked at whole, and why, one sentence each."""

    def problem(self, rule: Rule, place: Place, detail: str, *, own: bool = False) -> None:
        """Note a reason to refuse; the detail is told with the place."""
        self.problems.append(Problem(rule=rule, path=place.path, detail=f"{place.label}: {detail}", own=own))

    def unit(self, place: Place, label: str, source: bytes, *, certain: bool) -> None:
        """Add a text that may be Python, or a problem when there is too much of it."""
        self.source_bytes += len(source)
        if self.source_bytes > MAX_SOURCE_BYTES:
            detail = f"with {label} there are more than {MAX_SOURCE_BYTES >> 20} MiB of text that may be Python"
            self.problem("unreadable-python", place, detail)
            return
        self.units.append(Unit(path=place.path, label=label, source=source, certain=certain))

    def template(self, place: Place, label: str, text: str) -> None:
        """Add a chat template, or a problem when it is too long."""
        if len(text) > MAX_TEMPLATE_CHARACTERS:
            part = label.removeprefix(place.label).strip()
            detail = f"{len(text)} characters are too many for a chat template"
            self.problem("template", place, f"{part}: {detail}" if part else detail)
            return
        self.templates.append(Template(path=place.path, label=label, text=text))
