"""The options that write a report to files, one a format; the same for every command that has a report."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from modelctl.admission.report import Report

FORMATS = {
    "json": "the report as JSON",
    "sarif": "findings as SARIF 2.1.0, for code scanning",
    "markdown": "a short report for a pull request's comment",
    "junit": "checks as JUnit XML",
    "html": "one self-contained page",
}


@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    """What is to be written: (format, file or `-` for stdout)."""

    targets: tuple[tuple[str, str], ...]

    @property
    def on_stdout(self) -> bool:
        """Whether stdout belongs to a program."""
        return any(target == "-" for _, target in self.targets)

    def write(self, report: Report, evidence: Sequence[Path] = ()) -> None:
        """Write every file, whole or not at all; `evidence`: folders of the report's raw evidence."""
        from modelctl.admission.formats import render
        from modelctl.cli.output import write_json

        for kind, target in self.targets:
            write_json(target, render(report, kind, evidence))


def REPORT_OPTIONS(command: Callable[..., Any]) -> Callable[..., Any]:  # noqa: N802 - a decorator like click's options
    """Add an option for each format; the command gets `report_files`."""

    @functools.wraps(command)
    def wrapped(**options: Any) -> Any:
        targets = tuple((kind, options.pop(f"{kind}_target")) for kind in FORMATS)
        given = tuple((kind, target) for kind, target in targets if target)
        if sum(target == "-" for _, target in given) > 1:
            raise click.UsageError("only one format can go to stdout (-)")
        return command(**options, report_files=ReportFiles(targets=given))

    for kind, words in reversed(FORMATS.items()):
        option = click.option(f"--{kind}", f"{kind}_target", metavar="FILE|-", help=f"Also write {words}; - is stdout.")
        wrapped = option(wrapped)
    return wrapped
