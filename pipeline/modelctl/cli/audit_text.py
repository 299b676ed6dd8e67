"""What an audit tells, for a person at a terminal."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from modelctl.audit.events import Event
    from modelctl.audit.origins import Origin
    from modelctl.audit.serving import Serving
    from modelctl.audit.violation import Verification

MANY = 500
"""Events from which on each is one plain line: a table of thousands takes longer to lay out than history to read."""
NARROW = 72
"""Columns below which a table of events can't be read."""
WIDE = 100
"""Columns of a terminal in which a release's name stays on one line."""
COLUMNS = ("when", "what", "release", "who", "commit", "on which evidence")
STYLES = {
    "approved": "green",
    "admitted": "green",
    "published": "green",
    "rolled-out": "cyan",
    "promoted": "green",
    "aborted": "yellow",
    "rolled-back": "yellow",
    "reverted": "yellow",
    "refused": "red",
    "undecided": "yellow",
    "unreviewed": "yellow",
    "unreadable": "red",
    "waived": "yellow",
    "record-changed": "bold red",
    "retired": "yellow",
}
_SAID = ("proposed", "published", "rolled-out", "promoted")
"""Kinds whose detail is the commit's subject, which repeats what the other columns say."""


def _signer(name: str) -> str:
    """A fingerprint's beginning, or all of an identity."""
    return f"{name[:15]}…" if name.startswith("SHA256:") else name


def moment(when: str) -> str:
    """A commit's time, in UTC to the minute."""
    if when.endswith("+00:00"):  # most of them, thousands of times
        return f"{when[:10]} {when[11:16]}"
    return datetime.datetime.fromisoformat(when).astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M")


def evidence(event: Event) -> str:
    """What an event rests on, in a few words."""
    parts = (
        event.digest and event.digest[:19] + "…",
        event.policy and event.kind != "policy-changed" and f"policy {event.policy}",
        event.machine and f"on {event.machine}",
        event.evidence and event.kind != "published" and f"report {event.evidence[:12]}…",
        event.signer and f"signed {_signer(event.signer)}",
        event.tag and "tagged",
        event.reason,
        *event.reviewers,
        event.waiver and event.waiver,
        "" if event.kind in _SAID else event.detail,
    )
    return ", ".join(part for part in parts if part)


def print_events(events: Sequence[Event], out: Console) -> None:
    """The timeline as a table."""
    from rich.table import Table

    if not events:
        out.print("no events: git history holds nothing that was asked for")
        return
    if out.width < NARROW:
        _print_narrow(events, out)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        whole = column in ("when", "commit") or (column == "release" and out.width >= WIDE)
        table.add_column(column, overflow="fold", no_wrap=whole)
    for event in events:
        table.add_row(*_cells(event), style=STYLES.get(event.kind, ""))
    out.print(table)


def _print_narrow(events: Sequence[Event], out: Console) -> None:
    """A paragraph for each event, where a table has no room."""
    from rich.padding import Padding

    for event in events:
        when, what, release, who, commit, rests_on = _cells(event)
        out.print(f"{when}  {what}", style=STYLES.get(event.kind, ""))
        for line in (release, f"{who} in {commit}", rests_on):
            if line:
                out.print(Padding(line, (0, 0, 0, 2)))


def write_events(events: Sequence[Event], stream: IO[str]) -> None:
    """The timeline as plain lines, which tools for text may cut up."""
    stream.write("".join(f"{line}\n" for line in _lines(events)))


def _cells(event: Event) -> tuple[str, ...]:
    what = event.kind + (f" → {event.environment}" if event.environment else "")
    who = event.who.partition(" <")[0]
    return moment(event.when), what, event.release or "", who, event.commit[:8], evidence(event)


def _lines(events: Sequence[Event]) -> Iterator[str]:
    rows = [COLUMNS, *(_cells(event) for event in events)]
    widths = [max(len(row[number]) for row in rows) for number in range(len(COLUMNS) - 1)]
    for row in rows:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        yield "  ".join((*padded, row[-1])).rstrip()


def print_serving(found: Sequence[Serving], commit: str, out: Console) -> None:
    """What is served, a paragraph for each release."""
    if not found:
        out.print(f"at {commit[:12]} no environment that was asked for served anything")
        return
    for item in found:
        out.print(f"{item.environment}  {item.role}  {item.release}", style="bold")
        rows = (
            ("since", item.since and f"{moment(item.since)} by {item.by} in {(item.commit or '')[:12]}"),
            ("because", item.reason),
            ("bytes", item.digest),
            ("admitted", item.verdict and _judged(item)),
            ("waived", "; ".join(item.waivers)),
            ("approved", "; ".join(part for part in (item.approved_by, *item.reviewers) if part)),
            ("published", item.published and f"{item.published[:12]}, tag {item.tag or 'missing'}"),
            ("signed by", item.signer),
        )
        for name, value in rows:
            if value:
                out.print(f"  {name:<10} {value}", soft_wrap=True)
        if item.published is None:
            out.print("  published  no commit of this history published it", style="bold red")
        out.print()
    out.print(f"at {commit[:12]}; modelctl audit --verify says whether all of it agrees", style="dim")


def print_origins(found: Sequence[Origin], out: Console) -> None:
    """Releases and where they came from."""
    from rich.padding import Padding
    from rich.table import Table

    if not found:
        out.print("no release fits")
        return
    if out.width < NARROW:
        for item in found:
            out.print(item.release, style="bold")
            for line in _origin(item)[1:]:
                if line:
                    out.print(Padding(line, (0, 0, 0, 2)))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("release", "state", "source", "policy", "when", "commit", "served in"):
        table.add_column(column, overflow="fold", no_wrap=column in ("when", "commit"))
    for item in found:
        table.add_row(*_origin(item), style="yellow" if item.problem else "")
    out.print(table)


def _origin(item: Origin) -> tuple[str, ...]:
    source = item.problem or next(iter(item.sources), "")
    served = ", ".join(item.served_in)
    return item.release, item.state, source, item.policy or "", moment(item.when), item.commit[:8], served


def print_verification(verification: Verification, out: Console) -> None:
    """Every finding, what could not be checked, and the sum."""
    looked = f", the bucket {'held against them' if verification.bucket else 'not looked at (--bucket)'}"
    before = f" ({verification.recalled} releases unchanged since an earlier run)" if verification.recalled else ""
    out.print(
        f"\nverified at {verification.head[:12]}: releases {verification.releases}, "
        f"deployments {verification.deployments}, signatures {verification.signatures}{looked}{before}",
        soft_wrap=True,
    )
    for violation in verification.violations:
        where = ", ".join(part for part in (violation.release, violation.environment) if part)
        commit = f" (commit {violation.commit[:12]})" if violation.commit else ""
        out.print(f"\n✗ {violation.rule}  {where}", style="bold red")
        out.print(f"  {violation.message}{commit}", soft_wrap=True)
        out.print(f"  next: {violation.remedy}", style="dim", soft_wrap=True)
    for item in verification.unverified:
        out.print(f"\n? {item.release or 'history'}: {item.reason}", style="yellow", soft_wrap=True)
        out.print(f"  next: {item.remedy}", style="dim", soft_wrap=True)
    for note in verification.notes:
        out.print(note, style="dim", soft_wrap=True)
    if verification.exit_code == 0:
        out.print("every claim agrees with every other", style="bold green")


def _judged(item: Serving) -> str:
    passed = sum(check.endswith(": passed") for check in item.checks)
    return (
        f"{item.verdict} by policy {item.policy} ({(item.policy_digest or '')[:19]}…), {passed} of {len(item.checks)} "
        f"checks passed, report sha256 {(item.evidence or '')[:12]}…"
    )
