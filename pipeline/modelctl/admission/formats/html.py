"""One self-contained page: the verdict, what was checked and how much of it, every finding, every figure.

Figures are drawn where matplotlib is installed; the tables have the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from modelctl.admission.formats.drawn import charts_of
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
from modelctl.page.document import charts, document, section, table, text

_KIND = {"admitted": "good", "refused": "bad", "undecided": "unsure"}
_WORDS = {"admitted": "Admitted", "refused": "Refused", "undecided": "Could not decide"}


def render(report: Report) -> str:
    """The page."""
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
    parts.append(charts(charts_of(report)))
    if not report.partial:
        parts.append(section("Launch checklist", _launch(report)))
    parts.append(section("What was judged", _subject(report)))
    parts += [section(f"{check.id}: figures", _figures(check)) for check in report.checks if check.measurements]
    if evidence := list(_evidence(report)):
        parts.append(section("Raw evidence", table(["file", "size", "sha256"], evidence, words=True)))
    return document(f"Admission of {printable(name)}", [part for part in parts if part])


def _checks(report: Report) -> str:
    rows = [
        [
            check.id if check.required else f"{check.id} (optional)",
            f"{OUTCOME_MARK[check.outcome]} {check.outcome}"
            + (f", {len(check.waived)} waived" if check.waived else ""),
            coverage_text(check.coverage),
            "; ".join(measurement_text(item) for item in check.measurements[:2]),
            duration_text(check.duration_s),
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
    return table(["check", "outcome", "looked at", "figures", "time"], _shown(rows), words=True) + "".join(remarks)


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
        ["source digest", model.source_digest],
        ["served digest", model.served_digest or "not made"],
        ["licence", ", ".join(model.license.names) if model.license and model.license.names else "not named"],
        ["policy", f"{policy.name}, {policy.place or ''}"],
        ["policy digest", policy.digest],
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
            yield [printable(item.path), size_text(item.size_bytes), item.sha256]


_LAUNCH = (
    ("longest context answered", "long-context", "longest-answered"),
    ("engine's memory at most", "long-context", "memory-peak"),
    ("KV cache needed", "concurrency", "kv-blocks-needed"),
    ("KV cache of the engine", "concurrency", "kv-blocks-pool"),
    ("requests waiting at most", "concurrency", "waiting-max"),
    ("time to first token, 95 %", "concurrency", "ttft-p95"),
    ("time per output token, 95 %", "concurrency", "tpot-p95"),
    ("throughput", "concurrency", "throughput"),
    ("streams where more stop paying", "concurrency", "knee"),
    ("attention backend", "concurrency", "engine-attention-backend"),
)
"""What a person asks before a launch: the item, and the check and the figure that answer it."""


def _launch(report: Report) -> str:
    """The launch checklist: what was measured of serving it, and the commands for what is not measured here."""
    figures = {(check.id, item.name): item for check in report.checks for item in reversed(check.measurements)}
    rows = []
    for what, check_id, name in _LAUNCH:
        item = figures.get((check_id, name))
        load = ", ".join(f"{key} {item.parameters[key]}" for key in _OF_LOAD if key in item.parameters) if item else ""
        rows.append([what, measurement_text(item) if item else "not measured", load])
    named = report.model.release or "REPO"
    rows.append(["memory, flags, GPUs, cost", f"modelctl size {named}", "estimated, before any engine is started"])
    rows.append(["where more streams stop paying", "modelctl stress URL", "on the hardware that will serve"])
    if report.model.release:
        rows.append(["publication", f"modelctl publish {named}", "once, signed"])
        rows.append(["canary and its dashboards", f"modelctl rollout {named} --env ENV", "as one commit"])
    return table(["item", "measured, or the command", "under"], _shown(rows), words=True)


_OF_LOAD = ("streams", "duration_s", "stated_maximum", "prompt_tokens", "answer_tokens")


def _shown(rows: list[list[str]]) -> list[list[str]]:
    return [[printable(cell) for cell in row] for row in rows]
