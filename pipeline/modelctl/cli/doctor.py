"""`modelctl doctor`: what this machine has and lacks, and the command that mends it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "missing": ("✗", "red")}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
@click.option("--clamd-conf", is_flag=True, help="Write a clamd.conf for the policy's windows to stdout.")
def doctor(as_json: bool, clamd_conf: bool) -> int:
    """Look at what this machine has for each part of the work.

    Exits with 3 when something is missing; a warning is not a lack.

    \b
    modelctl doctor
    modelctl doctor --clamd-conf | sudo tee /etc/clamav/clamd.conf
    """
    from rich.table import Table
    from rich.text import Text

    from modelctl.cli.diagnosis import diagnose, malware_limits
    from modelctl.cli.output import console
    from modelctl.services.clamd_conf import service_text
    from modelctl.settings import load_workspace

    workspace = load_workspace(Path.cwd())
    if clamd_conf:
        click.echo(service_text(malware_limits(workspace).window_mib << 20), nl=False)
        return 0
    rows = list(diagnose(workspace))
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(row) for row in rows], indent=2))
    else:
        table = Table("", "part", "found", "needed for", box=None, pad_edge=False, header_style="dim")
        for row in rows:
            mark, style = MARKS[row.state]
            found = Text(row.found)
            if row.remedy:
                found.append(f"\nnext: {row.remedy}", style="bold" if row.state == "missing" else "dim")
            table.add_row(Text(mark, style=style), row.part, found, Text(row.needed_for, style="dim"))
        console().print(table)
    return 3 if any(row.state == "missing" for row in rows) else 0
