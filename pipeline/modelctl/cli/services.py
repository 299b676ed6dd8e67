"""`modelctl services up|down|status`: the embedded parts of a laptop, on loopback only."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from modelctl.services.process import Running
    from modelctl.settings import Workspace

NAMES = ("clamd", "s3", "prometheus")
DEFAULT_NAMES = ("clamd", "s3")


@click.group(no_args_is_help=True)
def services() -> None:
    """Embedded clamd, S3 server and Prometheus for a laptop.

    They listen on loopback only and keep everything in the state folder of the registry repository. Production points
    at the real ones by settings (clamd, store.endpoint); no code differs.
    """


@services.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--target", "targets", multiple=True, metavar="HOST:PORT", help="What Prometheus scrapes; repeatable.")
def up(names: tuple[str, ...], targets: tuple[str, ...]) -> None:
    """Start services that do not run yet: clamd and s3, or those that are named.

    \b
    modelctl services up
    modelctl services up prometheus --target 127.0.0.1:8000
    """
    from modelctl.cli.progress import shown
    from modelctl.services.clamd import fetch_command, private_clamd
    from modelctl.services.process import find, start
    from modelctl.services.prometheus import prometheus
    from modelctl.services.s3 import s3_server

    folder = _workspace().make_state() / "services"
    makers = {
        "clamd": lambda: private_clamd(folder / "clamd"),
        "s3": lambda: s3_server(folder / "s3"),
        "prometheus": lambda: prometheus(folder / "prometheus", targets=list(targets)),
    }
    running: list[Running] = []
    with shown() as progress:
        for name in names or DEFAULT_NAMES:
            found = find(folder / name)
            progress.note(f"{name}: {'runs already' if found else 'starting'}")
            running.append(found or start(makers[name]()))
    _print(running)
    fetch = fetch_command(folder / "clamd")
    if fetch and any(item.name == "clamd" for item in running):
        click.echo("clamd has no official database, which only policies like demo accept. To fetch it:", err=True)
        click.echo(f"  {fetch} && modelctl services down clamd && modelctl services up clamd", err=True)


@services.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
def down(names: tuple[str, ...]) -> None:
    """End services: all of them, or those that are named. What they keep on disk stays.

    \b
    modelctl services down
    """
    from modelctl.services.process import stop

    folder = _workspace().state / "services"
    for name in names or NAMES:
        if stop(folder / name):
            click.echo(f"{name}: ended", err=True)


@services.command()
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
def status(as_json: bool) -> None:
    """Say what runs, where it listens and what it keeps.

    \b
    modelctl services status
    modelctl services status --json
    """
    from modelctl.services.process import find

    folder = _workspace().state / "services"
    running = [found for name in NAMES if (found := find(folder / name)) is not None]
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(item) for item in running], indent=2))
    elif running:
        _print(running)
    else:
        click.echo("no embedded service runs; start them with: modelctl services up", err=True)


def _workspace() -> Workspace:
    from modelctl.settings import load_workspace

    return load_workspace(Path.cwd())


def _print(running: Iterable[Running]) -> None:
    from rich.table import Table

    from modelctl.cli.output import console

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("service", "address", "detail"):
        table.add_column(heading, overflow="fold")
    for item in running:
        table.add_row(item.name, item.address, item.detail)
    console().print(table)
