"""Runs bandit over source that a hostile model brought, so that the model can't talk it out of anything.

The source is laid out anew under names of our own: no `.bandit` file, hidden folder, excluded name or missing
extension of the repository reaches bandit. `# nosec` is ignored, bandit's configuration is ours, it runs isolated,
and a file that it did not look at is reported as such.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from modelctl import worker
from modelctl.errors import CannotDecideError
from modelctl.isolation import Sandbox

Level = Literal["low", "medium", "high"]
LEVELS: tuple[Level, ...] = ("low", "medium", "high")
MEMORY_LIMIT_BYTES = 4 << 30
"""Of all processes together."""
MAX_PROCESSES = 8
FILES_A_PROCESS = 50
"""Fewer are done before a second process has started."""


@dataclass(frozen=True, kw_only=True)
class Issue:
    """What bandit says of one place. `unit` is the position of the source in what was given, `line` counts from 1."""

    unit: int
    line: int
    test: str
    """bandit's id, such as B602."""
    text: str
    severity: Level
    confidence: Level


@dataclass(frozen=True, kw_only=True)
class Bandit:
    """A whole run."""

    issues: tuple[Issue, ...]
    errors: tuple[tuple[int, str], ...]
    """Sources that bandit could not read, with its reason."""
    unseen: tuple[int, ...]
    """Sources that its output does not mention."""
    version: str


def run_bandit(
    sources: Sequence[Path], *, sandbox: Sandbox, folder: Path, time_limit_s: float, processes: int | None = None
) -> Bandit:
    """Run bandit on `sources`, which lie in `folder`, by default in a process for each core and at least 50 files.

    Raises `CannotDecideError` when it fails or runs out of time.
    """
    settings = folder / "bandit.ini"
    settings.write_text("[bandit]\n", encoding="ascii")
    names = {str(path): number for number, path in enumerate(sources)}
    if processes is None:
        processes = max(1, min(len(os.sched_getaffinity(0)), MAX_PROCESSES, len(sources) // FILES_A_PROCESS))
    report = worker.call(
        sandbox,
        "scan.bandit_worker",
        {"files": list(names), "settings": str(settings), "processes": processes},
        readable=[folder],
        time_limit_s=time_limit_s,
        memory_limit_bytes=MEMORY_LIMIT_BYTES,
    )
    try:
        issues = tuple(_issue(result, names) for result in report["results"])
        errors = tuple((names[error["filename"]], str(error["reason"])) for error in report["errors"])
        seen = {names[name] for name in report["seen"] if name in names}
    except (ValueError, KeyError, TypeError) as error:
        raise CannotDecideError(f"bandit's report is none of those it writes: {error!r}") from error
    failed = {unit for unit, _ in errors}
    unseen = tuple(number for number in names.values() if number not in seen | failed)
    return Bandit(issues=issues, errors=errors, unseen=unseen, version=version("bandit"))


def _issue(result: Any, names: dict[str, int]) -> Issue:
    severity, confidence = result["issue_severity"].lower(), result["issue_confidence"].lower()
    return Issue(
        unit=names[result["filename"]],
        line=int(result["line_number"]),
        test=str(result["test_id"]),
        text=str(result["issue_text"]),
        severity=severity if severity in LEVELS else "high",  # an undefined level counts as the worst
        confidence=confidence if confidence in LEVELS else "high",
    )
