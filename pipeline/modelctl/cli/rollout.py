"""`modelctl rollout NAME@VERSION --env E`: canary manifests, as one commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from modelctl.rollout.deploy import RolledOut


@click.command(epilog="Exit codes: 0 committed (or nothing to do), 1 refused, 2 usage, 3 git could not do it.")
@click.argument("release", metavar="NAME@VERSION")
@click.option(
    "--env", "environment", metavar="ENV", help="The environment; not needed when the settings name one only."
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and write nothing.")
@click.option("--reason", metavar="TEXT", help="Why; kept in the commit.")
@click.option("--json", "json_target", metavar="FILE|-", help="Also write the result as JSON; - is stdout.")
def rollout(release: str, environment: str | None, dry_run: bool, reason: str | None, json_target: str | None) -> None:
    """Write the canary manifests of a published release as one commit.

    Nothing is applied to a cluster from here: push the commit, and Argo CD takes it from there.

    \b
    modelctl rollout qwen3-4b@1.2.0 --env prod --dry-run
    modelctl rollout qwen3-4b@1.2.0 --env prod --reason "better at French"
    """
    from modelctl.cli.output import console, write_json
    from modelctl.rollout.deploy import roll_out
    from modelctl.settings import load_workspace

    workspace = load_workspace(Path.cwd())
    environment = environment or workspace.only_environment()
    result = roll_out(workspace.root, release, environment, dry_run=dry_run, reason=reason)
    if json_target:
        write_json(json_target, _as_json(result, dry_run=dry_run))
    if json_target != "-" and dry_run:
        click.echo(result.diff, nl=False)
    _tell(result, dry_run=dry_run, out=console(stderr=dry_run or json_target == "-"))


def _tell(result: RolledOut, *, dry_run: bool, out: Console) -> None:
    where = f"{result.release} in {result.environment}"
    if not result.changes:
        out.print(f"{where}: nothing to change, the manifests are as they should be", style="bold")
    elif dry_run:
        out.print(f"{where}: would write {len(result.files)} files; nothing was written", style="bold")
    else:
        out.print(f"{where}: committed {(result.commit or '')[:12]}", style="bold green")
        for file in result.files:
            out.print(f"  {file}")
    out.print(f"\nserved tree  {result.tree_digest}")
    for index, share in enumerate(result.shares):
        out.print(f"{'canary' if index == 0 else '':12} {share}")
    for note in result.notes:
        out.print(f"note: {note}", style="yellow")
    if result.commit:
        out.print("\nnext: git push, and Argo CD rolls it out", style="bold")


def _as_json(result: RolledOut, *, dry_run: bool) -> str:
    body = {
        "release": result.release,
        "environment": result.environment,
        "tree_digest": result.tree_digest,
        "dry_run": dry_run,
        "commit": result.commit,
        "files": [str(file) for file in result.files],
        "shares": [
            {"weight": share.weight, "percent": round(share.percent, 2), "canary": share.canary, "stable": share.stable}
            for share in result.shares
        ],
        "notes": list(result.notes),
        "diff": result.diff,
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"
