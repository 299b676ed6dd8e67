"""What a verified attestation proves, for a person and for a program: who signed, when, and what was checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from modelctl.admission.keyless import LogEntry
    from modelctl.admission.report import CheckReport, MachineReport, Report
    from modelctl.registry.trust import Signed

_COLOURS = {"passed": "green", "failed": "red", "error": "yellow", "skipped": None}


def attestation_lines(signed: Signed | None) -> Iterator[str]:
    """The lines below the claims."""
    from modelctl.admission.terminal import printable

    if signed is None:
        yield "\nno attestation was verified, so nothing was proven by one"
        return
    report, served = signed.statement.report, signed.statement.served
    place = f", {report.policy.place}" if report.policy.place else ""
    rows = [
        ("signed by", f"{', '.join(signed.principals)} ({signed.kind} {signed.statement.signed_by.key_id})"),
        ("said at", f"{report.created_at}, by the signed report itself{_vouched(signed.logged)}"),
        ("release", f"{report.model.release}, made of {report.model.source}"),
        ("files", f"{len(served.files):,}, each by its sha256; together {served.digest}"),
        ("policy", f"{report.policy.name} {report.policy.digest}{place}"),
        ("made with", f"modelctl {report.modelctl_version}"),
    ]  # fmt: skip
    yield ""
    for label, text in rows:
        yield f"{label:<13}{printable(text)}"
    for checks, machine, key in machines(report):
        by = f", signed by {key}" if key else ""
        yield f"{'machine':<13}{printable(f'{_machine(machine)}: {checks}{by}')}"
    if report.policy.notice:
        yield click.style(f"{'notice':<13}{printable(report.policy.notice)}", fg="yellow")
    yield "\nproven by it"
    for check in report.checks:
        outcome = click.style(f"{check.outcome:<8}", fg=_COLOURS[check.outcome])
        yield f"  {outcome} {check.id:<14} {printable(_looked_at(check))}".rstrip()
        for part in check.coverage:
            for item in part.excluded:
                yield f"{'':<26}not looked at: {printable(item)}"
        for waived in check.waived:
            what = " ".join(part for part in (waived.finding.rule, waived.finding.path) if part)
            who = f"{waived.reason}; owner {waived.owner}, approved by {waived.approver}"
            line = f"waived until {waived.expires}: {what} ({who})"
            yield click.style(f"{'':<26}{printable(line)}", fg="yellow")


def attestation_plain(signed: Signed) -> dict[str, object]:
    """The same as JSON values."""
    report = signed.statement.report
    return {
        "signers": list(signed.principals),
        "key_id": signed.statement.signed_by.key_id,
        "key_kind": signed.kind,
        "created_at": report.created_at,
        "logged_at": signed.logged.logged_at if signed.logged else None,
        "log_index": signed.logged.index if signed.logged else None,
        "release": report.model.release,
        "source": report.model.source,
        "served_digest": signed.statement.served.digest,
        "files": len(signed.statement.served.files),
        "modelctl_version": report.modelctl_version,
        "policy": report.policy.name,
        "policy_digest": report.policy.digest,
        "policy_notice": report.policy.notice,
        "machines": [
            {"hostname": machine.hostname, "gpus": list(machine.gpus), "isolation": machine.isolation, "checks": checks}
            for checks, machine, _ in machines(report)
        ],
        "checks": {check.id: check.outcome for check in report.checks},
        "coverage": {
            check.id: [
                {"unit": part.unit, "seen": part.seen, "total": part.total, "excluded": list(part.excluded)}
                for part in check.coverage
            ]
            for check in report.checks
        },
        "waived": [
            {"rule": item.finding.rule, "path": item.finding.path, "expires": item.expires, "owner": item.owner,
             "approver": item.approver, "reason": item.reason}
            for check in report.checks
            for item in check.waived
        ],
    }  # fmt: skip


def machines(report: Report) -> Iterator[tuple[str, MachineReport, str | None]]:
    """Each machine with the checks that it made, and the key that signed its evidence."""
    if not report.runs:
        yield "all checks", report.machine, None
    for run in report.runs:
        yield ", ".join(run.checks), run.machine, run.signed_by


def _vouched(logged: LogEntry | None) -> str:
    if logged is None:
        return ": no third party vouches for the time"
    return f"; sigstore's log took the signature in at {logged.logged_at}, as its entry {logged.index}"


def _machine(machine: MachineReport) -> str:
    gpus = ", ".join(machine.gpus) or "no GPU"
    return f"{machine.hostname}, {machine.cpus} CPUs, {gpus}, isolation {machine.isolation}"


def _looked_at(check: CheckReport) -> str:
    from modelctl.admission.terminal import coverage_text

    return coverage_text(check.coverage) or (f"skipped: {check.skipped_because}" if check.skipped_because else "")
