"""A report in the formats that other programs read. One module each; this list is the only registration."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from modelctl.admission.report import Report

FORMATS = ("json", "sarif", "markdown", "junit", "html")


def render(report: Report, kind: str, evidence: Sequence[Path] = ()) -> str:
    """The report as text in one of `FORMATS`. Raises `KeyError` for another one.

    `evidence`: folders of raw evidence that the page may show more from; what is not the file that the report lists is
    not looked at.
    """
    if kind not in FORMATS:
        raise KeyError(kind)
    if kind == "json":
        return report.to_json()
    module = importlib.import_module(f"modelctl.admission.formats.{kind}")
    text: str = module.render(report, evidence) if kind == "html" else module.render(report)
    return text
