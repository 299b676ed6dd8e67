"""The report as a person reads it: what was judged, how much of it was looked at, the verdict, then each finding
with its remedy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from modelctl.admission.report import CheckReport, MachineReport, Outcome, Report, Verdict
from modelctl.admission.subject_table import subject_table
from modelctl.checks.base import Coverage, Measurement

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

OUTCOME_STYLE: dict[Outcome, str] = {"passed": "green", "failed": "bold red", "error": "yellow", "skipped": "dim"}
OUTCOME_MARK: dict[Outcome, str] = {"passed": "✓", "failed": "✗", "error": "?", "skipped": "–"}
VERDICT_STYLE: dict[Verdict, str] = {
    "admitted": "bold white on green",
    "refused": "bold white on red",
    "undecided": "bold black on yellow",
}
FIGURES_SHOWN = 2


class _Spelt(dict[int, str]):
    """Each character as it may be shown, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = shown = character if character.isprintable() or character == "\n" else ascii(character)[1:-1]
        return shown


_SPELT = _Spelt()


def print_report(report: Report, console: Console) -> None:
    """Print the whole report."""
    for part in _parts(report):
        console.print(part)


def _parts(report: Report) -> Iterable[RenderableType]:
    from rich.text import Text

    yield _subject(report)
    yield Text("")
    yield _table(report.checks)
    yield Text("")
    yield _verdict(report)
    for check in report.checks:
        yield from _against(check)
    for check in report.checks:
        yield from subject_table(check)
    yield Text("")
    for check in report.checks:
        yield from _remarks(check)


def _subject(report: Report) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    model = report.model
    if model.release:
        grid.add_row("release", model.release)
    grid.add_row("source", f"{model.source}, {size_text(model.source_bytes)}, {short(model.source_digest)}")
    if model.served_digest is None:
        grid.add_row("served", "not made")
    elif model.served_digest != model.source_digest:
        grid.add_row("served", f"{size_text(model.served_bytes or 0)}, {short(model.served_digest)}")
    grid.add_row("policy", f"{report.policy.name}, {short(report.policy.digest)}")
    if report.policy.place:
        grid.add_row("", report.policy.place)
    for note in report.policy.notes:
        grid.add_row("", Text(printable(note), style="yellow"))
    if not report.runs:
        grid.add_row("machine", _machine(report.machine))
    for run in report.runs:
        signed = f"signed by {run.signed_by}" if run.signed_by else "not signed"
        grid.add_row("evidence", f"{', '.join(run.checks)}: {_machine(run.machine)}, {signed}")
    if report.policy.notice:
        grid.add_row("notice", Text(report.policy.notice, style="yellow"))
    return grid


def _machine(machine: MachineReport) -> str:
    where = ", ".join(machine.gpus) or "no GPU"
    isolation = "children isolated by bubblewrap" if machine.isolation == "bubblewrap" else "children NOT isolated"
    return f"{machine.hostname}, {machine.cpus} CPUs, {where}, {isolation}"


def _table(checks: tuple[CheckReport, ...]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("check", "outcome", "looked at", "figures"):
        table.add_column(heading, overflow="fold")
    table.add_column("time", justify="right", no_wrap=True)
    for check in checks:
        waived = f", {len(check.waived)} waived" if check.waived else ""
        outcome = Text(f"{OUTCOME_MARK[check.outcome]} {check.outcome}{waived}", style=OUTCOME_STYLE[check.outcome])
        figures = "; ".join(measurement_text(item) for item in check.measurements[:FIGURES_SHOWN])
        name = check.id if check.required else f"{check.id} (optional)"
        table.add_row(name, outcome, coverage_text(check.coverage), figures, duration_text(check.duration_s))
    return table


def coverage_text(coverage: tuple[Coverage, ...]) -> str:
    """One part a unit; what was seen of both trees is added up."""
    totals: dict[str, tuple[int, int]] = {}
    for item in coverage:
        seen, total = totals.get(item.unit, (0, 0))
        totals[item.unit] = (seen + item.seen, total + item.total)
    both = len({item.tree for item in coverage}) > 1
    return ", ".join(_covered(unit, *counts) for unit, counts in totals.items()) + (" in both trees" if both else "")


def _covered(unit: str, seen: int, total: int) -> str:
    if unit == "bytes":
        return f"{size_text(seen)} of {size_text(total)}"
    return f"{seen:,} of {total:,} {unit}"


def _verdict(report: Report) -> RenderableType:
    from rich.text import Text

    text = Text(f" {report.verdict.upper()} ", style=VERDICT_STYLE[report.verdict])
    skipped = " or do not apply" if any(check.outcome == "skipped" for check in report.checks) else ""
    passed = f"all {len(report.checks)} checks passed" if len(report.checks) > 1 else "the check passed"
    words = "; ".join(report.reasons) or passed + skipped
    if report.partial:
        words += ". Partial: only the checks that were asked for; it can't be published"
    return text.append(f"  {words}", style="default on default not bold")


def _against(check: CheckReport) -> Iterable[RenderableType]:
    for finding in check.findings:
        where = " · ".join(part for part in (finding.path, finding.tree) if part)
        yield from _entry(f"✗ {finding.rule}", "bold red", where, finding.message, finding.remedy)
    for question in check.undecided:
        yield from _entry(f"? {check.id}", "bold yellow", "could not decide", question.reason, question.remedy)


def _entry(heading: str, style: str, where: str, message: str, remedy: str | None) -> Iterable[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    yield Text("")
    yield Text(heading, style=style).append(f"  {printable(where)}" if where else "", style="not bold")
    yield Padding(Text(printable(message)), (0, 0, 0, 2))
    if remedy:
        yield Padding(Text("next: ", style="bold").append(printable(remedy), style="not bold"), (0, 0, 0, 2))


def _remarks(check: CheckReport) -> Iterable[RenderableType]:
    from rich.text import Text

    for item in check.waived:
        where = f" in {item.finding.path}" if item.finding.path else ""
        words = f"{item.finding.rule}{where} is waived until {item.expires}: {item.reason}"
        people = f"(owner {item.owner}, approver {item.approver}, {item.waiver})"
        yield Text(f"~ {printable(words)} {printable(people)}", style="yellow")
    if check.skipped_because:
        yield Text(f"– {check.id}: skipped: {printable(check.skipped_because)}", style="dim")
    for warning in check.warnings:
        yield Text(f"! {check.id}: {printable(warning)}", style="yellow")
    for excluded in dict.fromkeys(sentence for item in check.coverage for sentence in item.excluded):
        yield Text(f"! {check.id}: not looked at: {printable(excluded)}", style="yellow")


def printable(text: str) -> str:
    """Text of a hostile model made harmless for a terminal: control and direction characters are spelt out."""
    return text.translate(_SPELT)


def measurement_text(item: Measurement) -> str:
    """A figure for people: `accuracy drop 9.0 points`, `weights 269.1 MB`."""
    name, value = item.name.replace("-", " "), item.value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"{name} {value}"
    if item.unit in ("bytes", "B"):
        return f"{name} {size_text(value)}"
    number = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
    return f"{name} {number}" + (f" {item.unit}" if item.unit else "")


def short(digest: str) -> str:
    """A digest that a person can compare at a glance."""
    return digest[:19] + "…"


def size_text(size_bytes: float) -> str:
    """A size in decimal units."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def duration_text(seconds: float) -> str:
    """A duration: `0.4 s`, `2 min 05 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"
