"""One self-contained page: the verdict, what was checked and how much of it, every finding, every figure.

Figures are drawn where matplotlib is installed; the tables have the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from modelctl.admission.formats.drawn import charts_of, tall_charts_of
from modelctl.admission.formats.launch import launch
from modelctl.admission.formats.served_files import served_files
from modelctl.admission.report import CheckReport, Report
from modelctl.admission.subject_table import subjects
from modelctl.admission.terminal import (
    OUTCOME_MARK,
    coverage_text,
    duration_text,
    measurement_text,
    printable,
    size_text,
)
from modelctl.page.document import Code, Html, charts, document, folded, section, share_bar, table, text

FILES_SHOWN = 12
_KIND = {"admitted": "good", "refused": "bad", "undecided": "unsure"}
_WORDS = {"admitted": "Admitted", "refused": "Refused", "undecided": "Could not decide"}


def render(report: Report, evidence: Sequence[Path] = ()) -> str:
    """The page; `evidence`: folders of the raw evidence that the report lists, for the model's files."""
    name = report.model.release or report.model.source
    parts = [
        text(f"Admission of {printable(name)}", tag="h1"),
        text(
            f"{report.created_at}, {duration_text(report.duration_s)}, modelctl {report.modelctl_version}", kind="quiet"
        ),
        text(_WORDS[report.verdict], kind=f"headline {_KIND[report.verdict]}"),
        *(text(printable(reason)) for reason in report.reasons),
    ]
    if report.partial:
        parts.append(text("Partial: not all checks; it can't be published.", kind="unsure"))
    if report.policy.notice:
        parts.append(text(printable(report.policy.notice), kind="unsure"))
    parts += [text(printable(note), kind="unsure") for note in report.policy.notes]
    parts.append(section("Checks", _checks(report)))
    parts += [section(f"{check.id}: what refuses", _findings(check)) for check in report.checks if check.findings]
    parts += [section(f"{check.id}: could not decide", _undecided(check)) for check in report.checks if check.undecided]
    if waived := [item for check in report.checks for item in check.waived]:
        rows = [
            [
                item.finding.rule,
                item.finding.path or "",
                item.reason,
                item.owner,
                item.approver,
                item.expires,
                item.waiver,
            ]
            for item in waived
        ]
        head = ["rule", "file", "reason", "owner", "approver", "until", "waiver"]
        parts.append(section("Waived", table(head, _shown(rows), words=True)))
    parts += [f'<div class="narrow">{section(title, svg)}</div>' for title, svg in tall_charts_of(report)]
    parts.append(charts(charts_of(report)))
    if not report.partial:
        parts.append(section("Launch checklist", _launch(report)))
    parts.append(section("What was judged", _subject(report)))
    parts.append(section("Files", _files(report, evidence)))
    figures = [(check.id, _figures(check)) for check in report.checks if check.measurements]
    if figures:
        parts.append(section("All figures", "".join(folded(name, content) for name, content in figures)))
    if raw := list(_evidence(report)):
        parts.append(section("Raw evidence", table(["file", "size", "sha256"], raw, words=True)))
    return document(f"Admission of {printable(name)}", [part for part in parts if part])


def _checks(report: Report) -> str:
    rows = [
        [
            check.id if check.required else f"{check.id} (optional)",
            _outcome(check),
            _looked_at(check),
            "; ".join(measurement_text(item) for item in check.measurements[:2]),
            Html(text(duration_text(check.duration_s), tag="span", kind="whole")),
        ]
        for check in report.checks
    ]
    remarks = [
        text(printable(f"{check.id}: {words}"), kind="quiet")
        for check in report.checks
        for words in (
            *([f"skipped: {check.skipped_because}"] if check.skipped_because else []),
            *check.warnings,
            *(f"not looked at: {item}" for part in check.coverage for item in part.excluded),
        )
    ]
    shown = table(["check", "outcome", "looked at", "figures", "time"], _shown(rows), words=True)
    return shown + "".join(remarks)


def _outcome(check: CheckReport) -> str:
    waived = f", {len(check.waived)} waived" if check.waived else ""
    kind = {"passed": "good", "failed": "bad", "error": "unsure"}.get(check.outcome)
    return Html(text(f"{OUTCOME_MARK[check.outcome]} {check.outcome}{waived}", tag="span", kind=kind))


def _looked_at(check: CheckReport) -> str:
    """How much of it was looked at, in words and, where it can be said as a share, as a bar."""
    words = coverage_text(check.coverage)
    shares = [part.seen / part.total for part in check.coverage if part.total]
    return Html(text(printable(words), tag="span") + (share_bar(min(shares)) if shares else ""))


def _findings(check: CheckReport) -> str:
    return "".join(
        text(
            f"{item.rule}  {printable(' · '.join(part for part in (item.path, item.tree) if part))}",
            tag="h3",
            kind="bad",
        )
        + text(printable(item.message))
        + text(f"next: {printable(item.remedy)}", kind="quiet")
        for item in check.findings
    )


def _undecided(check: CheckReport) -> str:
    return "".join(
        text(printable(item.reason), kind="unsure")
        + (text(f"next: {printable(item.remedy)}", kind="quiet") if item.remedy else "")
        for item in check.undecided
    )


def _subject(report: Report) -> str:
    model, policy = report.model, report.policy
    rows = [
        ["release", model.release or "none"],
        ["source", f"{model.source}, {size_text(model.source_bytes)}"],
        ["source digest", Code(model.source_digest)],
        ["served digest", Code(model.served_digest or "not made")],
        ["licence", ", ".join(model.license.names) if model.license and model.license.names else "not named"],
        ["policy", f"{policy.name}, {policy.place or ''}"],
        ["policy digest", Code(policy.digest)],
    ]
    machines = [(", ".join(run.checks), run.machine, run.signed_by) for run in report.runs] or [
        ("machine", report.machine, None)
    ]
    for what, machine, signer in machines:
        gpus = ", ".join(machine.gpus) or "no GPU"
        signed = f", signed by {signer}" if signer else ""
        rows.append([what, f"{machine.hostname}, {machine.cpus} CPUs, {gpus}, isolation: {machine.isolation}{signed}"])
    return table(["", ""], _shown(rows), words=True)


def _figures(check: CheckReport) -> str:
    rows = [
        [measurement_text(item), ", ".join(f"{name} {value}" for name, value in item.parameters.items())]
        for item in check.measurements
        if item.name != "subject-change"
    ]
    found = subjects(check)
    by_subject = [
        [item.name, str(item.questions), str(item.baseline_correct), str(item.baseline_correct + item.change)]
        for item in found
    ]
    tools = text(", ".join(f"{name} {version}" for name, version in check.tools.items()), kind="quiet")
    more = table(["subject", "questions", "original right", "served right"], _shown(by_subject)) if by_subject else ""
    return table(["figure", "measured with"], _shown(rows), words=True) + more + (tools if check.tools else "")


def _evidence(report: Report) -> Iterator[list[str]]:
    for check in report.checks:
        for item in check.evidence:
            yield [printable(item.path), size_text(item.size_bytes), Code(item.sha256)]


def _launch(report: Report) -> str:
    """What an operator asks before the first request, in groups."""
    parts = []
    for title, rows in launch(report):
        if rows:
            head = ["item", "measured, or the command", "under"]
            parts.append(text(title, tag="h3") + table(head, _shown(rows), words=True))
    return f'<div class="launch">{"".join(parts)}</div>'


def _files(report: Report, evidence: Sequence[Path]) -> str:
    """The model's files with their hashes; the largest first, the others folded."""
    files = served_files(report, evidence)
    if files is None:
        return text("The list of files is not beside this report: integrity keeps it as raw evidence.", kind="quiet")
    largest = sorted(files, key=lambda file: (-file.size_bytes, file.path))
    rows = [[file.path, size_text(file.size_bytes), Code(file.sha256)] for file in largest]
    head = ["file", "size", "sha256"]
    shown = table(head, _shown(rows[:FILES_SHOWN]), words=True)
    more = rows[FILES_SHOWN:]
    return shown + (folded(f"{len(more):,} more", table(head, _shown(more), words=True)) if more else "")


def _shown(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Cells with what hides or turns text around made visible; of which kind a cell is stays."""
    return [[cell if isinstance(cell, Html) else type(cell)(printable(cell)) for cell in row] for row in rows]
