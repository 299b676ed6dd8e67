"""A report in the formats that other programs read. One module each; this list is the only registration."""

from __future__ import annotations

import importlib

from modelctl.admission.report import Report

FORMATS = ("json", "sarif", "markdown", "junit", "html")


def render(report: Report, kind: str) -> str:
    """The report as text in one of `FORMATS`. Raises `KeyError` for another one."""
    if kind not in FORMATS:
        raise KeyError(kind)
    if kind == "json":
        return report.to_json()
    module = importlib.import_module(f"modelctl.admission.formats.{kind}")
    text: str = module.render(report)
    return text
