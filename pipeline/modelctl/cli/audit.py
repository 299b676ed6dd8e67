"""`modelctl audit`: the timeline of every release from git history, and whether its claims agree."""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from modelctl.audit.timeline import Event
    from modelctl.audit.violation import Verification

WIDE = 100
"""Columns of a terminal in which a release's name stays on one line."""

_STYLES = {
    "admitted": "green",
    "published": "green",
    "rolled-out": "cyan",
    "promoted": "green",
    "aborted": "yellow",
    "rolled-back": "yellow",
    "refused": "red",
    "undecided": "yellow",
    "unreadable": "red",
    "record-changed": "bold red",
    "retired": "yellow",
}


_SAID = ("proposed", "published", "rolled-out", "promoted")
"""Kinds whose detail is the commit's subject, which repeats what the other columns say."""


@click.command(epilog="Exit codes with --verify: 0 all claims agree, 1 some contradict, 3 some could not be checked.")
@click.argument("release", metavar="[NAME[@VERSION]]", required=False)
@click.option("--env", "environment", metavar="ENV", help="Only what happened in this environment.")
@click.option("--since", metavar="DATE", help="Only what was committed on this day (UTC) or later: 2026-01-31.")
@click.option("--verify", "verified", is_flag=True, help="Check every claim against every other.")
@click.option("--json", "json_target", metavar="FILE|-", help="Write events (and violations) as JSON; - is stdout.")
def audit(
    release: str | None, environment: str | None, since: str | None, verified: bool, json_target: str | None
) -> int:
    """Who let which model in, on which evidence: the timeline of every release, from git history alone.

    \b
    modelctl audit
    modelctl audit qwen3-4b@1.2.0 --verify
    modelctl audit --env prod --since 2026-01-31
    """
    from modelctl.audit.timeline import timeline
    from modelctl.audit.verify import verify
    from modelctl.cli.output import console, write_json
    from modelctl.settings import load_workspace

    root = load_workspace(Path.cwd()).root
    name, version = _wanted(release)
    events = timeline(root, name=name, version=version, env=environment, since=_day(since))
    verification = verify(root, name=name, version=version, env=environment) if verified else None
    if json_target:
        write_json(json_target, _as_json(events, verification))
    if json_target != "-":
        _print_events(events, console())
    if verification is None:
        return 0
    _print_verification(verification, console(stderr=json_target == "-"))
    return verification.exit_code


def _wanted(release: str | None) -> tuple[str | None, str | None]:
    from modelctl.model.release import parse_release_id

    if release is None or "@" not in release:
        return release, None
    return parse_release_id(release)


def _day(text: str | None) -> datetime.datetime | None:
    from modelctl.errors import InputError

    if text is None:
        return None
    try:
        day = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"--since: '{text}' is no date", remedy="write it as 2026-01-31 or 2026-01-31T18:00"
        ) from error
    return day if day.tzinfo else day.replace(tzinfo=datetime.UTC)


def _print_events(events: list[Event], out: Console) -> None:
    from rich.table import Table

    if not events:
        out.print("no events: git history holds nothing that was asked for")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("when", "what", "release", "who", "commit", "on which evidence"):
        whole = column in ("when", "commit") or (column == "release" and out.width >= WIDE)
        table.add_column(column, overflow="fold", no_wrap=whole)
    for event in events:
        when = datetime.datetime.fromisoformat(event.when).astimezone(datetime.UTC)
        what = event.kind + (f" → {event.environment}" if event.environment else "")
        table.add_row(
            when.strftime("%Y-%m-%d %H:%M"),
            what,
            event.release or "",
            event.who.partition(" <")[0],
            event.commit[:8],
            _evidence(event),
            style=_STYLES.get(event.kind, ""),
        )
    out.print(table)


def _evidence(event: Event) -> str:
    parts = (
        event.digest and event.digest[:19] + "…",
        event.policy and event.kind != "policy-changed" and f"policy {event.policy}",
        event.machine and f"on {event.machine}",
        event.tag and "tagged",
        event.reason,
        "" if event.kind in _SAID else event.detail,
    )
    return ", ".join(part for part in parts if part)


def _print_verification(verification: Verification, out: Console) -> None:
    out.print(
        f"\nverified at {verification.head[:12]}: releases {verification.releases}, "
        f"deployments {verification.deployments}, signatures {verification.signatures}"
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
    if verification.exit_code == 0:
        out.print("every claim agrees with every other", style="bold green")


def _as_json(events: list[Event], verification: Verification | None) -> str:
    body = {
        "events": [event.as_json() for event in events],
        "verification": None if verification is None else asdict(verification),
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"
