"""Runs bandit over source that a hostile model brought, so that the model can't talk it out of anything.

The source is laid out anew under names of our own: no `.bandit` file, hidden folder, excluded name or missing
extension of the repository reaches bandit. `# nosec` is ignored, bandit's configuration is ours, it runs isolated,
and a file that it did not look at is reported as such.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from modelctl.errors import CannotDecideError
from modelctl.isolation import Child, Sandbox

Level = Literal["low", "medium", "high"]
LEVELS: tuple[Level, ...] = ("low", "medium", "high")
MAX_OUTPUT_BYTES = 64 << 20
MEMORY_LIMIT_BYTES = 4 << 30


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


def run_bandit(sources: Sequence[Path], *, sandbox: Sandbox, folder: Path, time_limit_s: float) -> Bandit:
    """Run bandit on `sources`, which are all the Python files in `folder`. Raises `CannotDecideError` when it fails
    or runs out of time."""
    settings = folder / "bandit.ini"
    settings.write_text("[bandit]\n", encoding="ascii")
    names = {str(path): number for number, path in enumerate(sources)}
    output = bytearray()

    def keep(line: bytes) -> None:
        output.extend(line)
        if len(output) > MAX_OUTPUT_BYTES:
            raise CannotDecideError("bandit's output is too long to be read")

    arguments = ["-f", "json", "-q", "-n", "1", "--exit-zero", "--ignore-nosec", "--ini", str(settings)]
    arguments += ["-x", str(folder / "nothing"), "-r", str(folder)]
    finished = sandbox.run(
        Child(argv=[sys.executable, "-I", "-m", "bandit", *arguments], readable=[folder]),
        request=b"",
        on_line=keep,
        time_limit_s=time_limit_s,
        memory_limit_bytes=MEMORY_LIMIT_BYTES,
    )
    try:
        report: dict[str, Any] = json.loads(output)
        issues = tuple(_issue(result, names) for result in report["results"])
        errors = tuple((names[error["filename"]], str(error["reason"])) for error in report["errors"])
        seen = {names[name] for name in report["metrics"] if name in names}
    except (ValueError, KeyError, TypeError) as error:
        words = finished.stderr.strip().splitlines()[-1:] or ["no words"]
        raise CannotDecideError(f"bandit ended with status {finished.returncode} and no report: {words[0]}") from error
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
