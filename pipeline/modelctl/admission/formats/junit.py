"""JUnit XML, as CI systems read it: a suite for each check, a case for each finding.

A finding is a failure, what could not be decided an error; an optional check's findings and waived ones are skipped
cases, so that they are seen and do not fail the build.
"""

from __future__ import annotations

# XML is written here and never parsed.
from xml.etree.ElementTree import Element, SubElement, indent, tostring  # nosec B405

from modelctl.admission.report import CheckReport, Report
from modelctl.admission.terminal import printable


def render(report: Report) -> str:
    """The document."""
    top = Element("testsuites", name=f"modelctl {report.model.release or report.model.source}")
    for check in report.checks:
        _suite(top, check, report)
    for kind in ("tests", "failures", "errors", "skipped"):
        top.set(kind, str(sum(int(suite.get(kind, "0")) for suite in top)))
    top.set("time", f"{report.duration_s:.3f}")
    indent(top)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(top, encoding="unicode") + "\n"


def _suite(top: Element, check: CheckReport, report: Report) -> None:
    suite = SubElement(
        top, "testsuite", name=check.id, time=f"{check.duration_s:.3f}", timestamp=check.started_at.removesuffix("Z"),
        hostname=_clean(report.machine.hostname),
    )  # fmt: skip
    for finding in check.findings:
        case = _case(suite, check, f"{finding.rule} {finding.path or ''}".strip())
        kind = "failure" if check.required else "skipped"
        told = SubElement(case, kind, message=_clean(finding.message))
        if check.required:
            told.set("type", finding.rule)
        told.text = _clean(f"{finding.message}\nnext: {finding.remedy}")
    for question in check.undecided:
        case = _case(suite, check, "could not decide")
        kind = "error" if check.required else "skipped"
        told = SubElement(case, kind, message=_clean(question.reason))
        if check.required:
            told.set("type", "undecided")
        told.text = _clean(f"{question.reason}\nnext: {question.remedy}" if question.remedy else question.reason)
    for waived in check.waived:
        case = _case(suite, check, f"{waived.finding.rule} {waived.finding.path or ''}".strip())
        words = f"waived until {waived.expires} by {waived.waiver}: {waived.reason}"
        SubElement(case, "skipped", message=_clean(words))
    if check.skipped_because:
        SubElement(_case(suite, check, check.id), "skipped", message=_clean(check.skipped_because))
    if not len(suite):
        _case(suite, check, check.id)
    suite.set("tests", str(len(suite)))
    for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(kind, str(len(suite.findall(f"testcase/{tag}"))))


def _case(suite: Element, check: CheckReport, name: str) -> Element:
    return SubElement(suite, "testcase", classname=f"modelctl.{check.id}", name=_clean(name))


def _clean(text: str) -> str:
    """XML has no words for control characters."""
    return printable(text)
