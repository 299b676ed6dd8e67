"""`modelctl config show`: each setting, its value and where it comes from."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.group(no_args_is_help=True)
def config() -> None:
    """Settings, and where each comes from."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
def show(as_json: bool) -> None:
    """Print each setting, its value and where it comes from; secrets are masked.

    A setting comes from modelctl.yaml at the root of the registry repository, is overridden by its MODELCTL_…
    variable, and that by a command's option.

    \b
    modelctl config show
    modelctl config show --json
    """
    from modelctl.settings import load_workspace

    workspace = load_workspace(Path.cwd())
    if as_json:
        rows = {
            item.key: {"value": item.shown, "origin": item.origin, "variable": item.variable}
            for item in workspace.origins
        }
        click.echo(json.dumps({"root": str(workspace.root), "settings": rows}, indent=2, default=str))
        return
    from rich.table import Table

    from modelctl.cli.output import console

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("setting", "value", "from", "variable"):
        table.add_column(column, overflow="fold")
    for item in workspace.origins:
        table.add_row(
            item.key, _plain(item.shown), item.origin, item.variable, style="" if item.origin != "default" else "dim"
        )
    click.echo(f"registry repository: {workspace.root}", err=True)
    console().print(table)


def _plain(value: object) -> str:
    """A value as a person would write it; nothing for one that is not set."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list() | tuple():
            return ", ".join(map(str, value))
        case dict():
            return ", ".join(f"{key}={item}" for key, item in value.items())
        case _:
            return str(value)
