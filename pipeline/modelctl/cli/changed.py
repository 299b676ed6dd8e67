"""`modelctl changed --base REF`: the releases that a pull request touches, as a job matrix."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click


@click.command()
@click.option("--base", required=True, metavar="REF", help="The branch that the pull request is for (origin/main).")
@click.option("--head", default="HEAD", show_default=True, metavar="REF", help="The pull request's last commit.")
def changed(base: str, head: str) -> None:
    """Print the releases that HEAD proposes or changes since it left BASE, as a job matrix in JSON.

    `{"include": [{"release": "name@1.0.0", "file": "registry/…/release.yaml", "change": "added"}]}`; the list is empty
    when there is none. Only git is read. Anything else below registry/ than release files is refused (1).

    \b
    modelctl changed --base origin/main
    """
    from modelctl.admission.proposed import proposed
    from modelctl.settings import load_workspace

    found = proposed(load_workspace(Path.cwd()).root, base=base, head=head)
    click.echo(json.dumps({"include": [asdict(item) for item in found]}))
