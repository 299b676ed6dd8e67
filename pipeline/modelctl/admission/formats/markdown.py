"""A pull request's comment: the verdict in a line, a table of checks, findings folded, under GitHub's size limit.

Whatever a hostile model put into a message stands in code, escaped: it can't mention people, link or close the fold.
The first line is a marker by which a workflow finds its comment again and updates it in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from modelctl.admission.report import CheckReport, Report
from modelctl.admission.terminal import OUTCOME_MARK, coverage_text, duration_text, measurement_text, printable, short
from modelctl.checks.base import Finding

MAX_CHARACTERS = 65_000
"""GitHub takes 65,536 characters in a comment."""
MAX_MESSAGE = 600
_RESERVE = 2_000
_VERDICT = {"admitted": "✅ admitted", "refused": "❌ refused", "undecided": "⚠️ could not decide"}
FIGURES_SHOWN = 2


def render(report: Report) -> str:
    """The comment, complete or with a line that says how much was left out."""
    name = report.model.release or report.model.source
    head = [
        f"<!-- modelctl {code_text(report.model.release or 'model')} -->",
        f"### {_VERDICT[report.verdict]}: {code(name)}",
        "",
        *(f"- {code(reason, MAX_MESSAGE)}" for reason in report.reasons[:20]),
        *([f"- and {len(report.reasons) - 20} more reasons"] if len(report.reasons) > 20 else []),
        *(["- partial: only the checks that were asked for; it can't be published"] if report.partial else []),
        "",
        "| check | outcome | looked at | figures | time |",
        "|---|---|---|---|---|",
        *(_row(check) for check in report.checks),
        "",
    ]
    foot = ["", *_foot(report)]
    room = MAX_CHARACTERS - _length(head) - _length(foot) - _RESERVE
    return "\n".join([*head, *_fitting(list(_blocks(report)), room), *foot]) + "\n"


def code(text: str, limit: int = MAX_MESSAGE) -> str:
    """Text of anyone's as inline code that nothing in it can end."""
    return f"<code>{code_text(text, limit)}</code>"


def code_text(text: str, limit: int = MAX_MESSAGE) -> str:
    """The same without its tags; `|` and line breaks would end a table's cell, `--` a comment."""
    flat = " ".join(printable(text).split())
    shown = flat if len(flat) <= limit else flat[:limit] + "…"
    for mark in "|`*_[]~@#\\-:":
        shown = shown.replace(mark, f"\0{ord(mark)};")
    return escape(shown).replace("\0", "&#")


def _row(check: CheckReport) -> str:
    name = check.id if check.required else f"{check.id} (optional)"
    figures = "; ".join(measurement_text(item) for item in check.measurements[:FIGURES_SHOWN])
    waived = f", {len(check.waived)} waived" if check.waived else ""
    outcome = f"{OUTCOME_MARK[check.outcome]} {check.outcome}{waived}"
    cells = (name, outcome, coverage_text(check.coverage), figures)
    return "| " + " | ".join(code_text(cell) for cell in cells) + f" | {duration_text(check.duration_s)} |"


def _blocks(report: Report) -> Iterator[str]:
    """One foldable part each for what refuses, what is undecided, what was waived and what to know."""
    for check in report.checks:
        if check.findings:
            number = len(check.findings)
            title = f"{check.id}: {number} finding{'s' if number != 1 else ''}"
            yield _fold(
                title,
                [
                    f"- **{code(item.rule)}** {_place(item)}<br>{code(item.message)}<br>next: {code(item.remedy)}"
                    for item in check.findings
                ],
            )
    for check in report.checks:
        if check.undecided:
            lines = [
                f"- {code(item.reason)}" + (f"<br>next: {code(item.remedy)}" if item.remedy else "")
                for item in check.undecided
            ]
            yield _fold(f"{check.id}: could not decide", lines)
    waived = [item for check in report.checks for item in check.waived]
    if waived:
        lines = [
            f"- **{code(item.finding.rule)}** {_place(item.finding)}<br>{code(item.reason)}, owner {code(item.owner)}, "
            f"approver {code(item.approver)}, until {item.expires} ({code(item.waiver)})"
            for item in waived
        ]
        yield _fold(f"{len(waived)} waived", lines)
    remarks = [f"- {code(check.id)}: {code(warning)}" for check in report.checks for warning in check.warnings]
    remarks += [
        f"- {code(check.id)}: skipped: {code(check.skipped_because)}"
        for check in report.checks
        if check.skipped_because
    ]
    if remarks:
        yield _fold(f"{len(remarks)} remark{'s' if len(remarks) != 1 else ''}", remarks)


def _place(finding: Finding) -> str:
    where = " · ".join(part for part in (finding.path, finding.tree) if part)
    return code(where) if where else ""


def _fold(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"<details><summary>{code_text(title)}</summary>", "", *lines, "", "</details>", ""])


def _fitting(blocks: Sequence[str], room: int) -> Iterator[str]:
    """As much as there is room for, in their order: every block gets its share, and what a short one leaves of its own
    the longer ones share; lines are left out from the end, and that is said."""
    shown: dict[int, str] = {}
    for at in sorted(range(len(blocks)), key=lambda number: len(blocks[number])):
        share = room // (len(blocks) - len(shown))
        shown[at] = blocks[at] if len(blocks[at]) <= share else _shortened(blocks[at], share)
        room -= len(shown[at])
    yield from (shown[at] for at in range(len(blocks)))


def _shortened(block: str, room: int) -> str:
    head, *lines = block.split("\n")
    entries, kept = [line for line in lines if line.startswith("- ")], []
    left = room - len(head) - 120
    for line in entries:
        left -= len(line) + 1
        if left < 0:
            break
        kept.append(line)
    more = f"- and {len(entries) - len(kept)} more: report.json has them all"
    return "\n".join([head, "", *kept, more, "", "</details>", ""])


def _foot(report: Report) -> Iterator[str]:
    model = report.model
    served = f", served {code(short(model.served_digest))}" if model.served_digest else ""
    yield f"source {code(short(model.source_digest))}{served}"
    place = f", {code(report.policy.place)}" if report.policy.place else ""
    yield f"<br>policy {code(report.policy.name)} {code(short(report.policy.digest))}{place}"
    for run in report.runs:
        signed = f", signed by {code(run.signed_by)}" if run.signed_by else ""
        yield f"<br>{code(', '.join(run.checks))} on {code(run.machine.hostname)}{signed}"
    for note in report.policy.notes[:20]:
        yield f"\n> {code(note)}"
    if report.policy.notice:
        yield f"\n> {code(report.policy.notice)}"


def _length(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)
