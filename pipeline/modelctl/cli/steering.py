"""`modelctl promote`, `abort`, `rollback`: decisions about a canary, each one commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from modelctl.rollout.steering import Order, Steered

_Command = TypeVar("_Command", bound=Callable[..., None])
_EXIT_CODES = "Exit codes: 0 committed (or nothing to do), 1 refused, 2 usage, 3 git could not do it."


def _decision(function: _Command) -> _Command:
    """What the three commands share."""
    for option in (
        click.option("--json", "json_target", metavar="FILE|-", help="Also write the result as JSON; - is stdout."),
        click.option("--reason", metavar="TEXT", help="Why; kept in the commit."),
        click.option("--dry-run", is_flag=True, help="Show what would change, and write nothing."),
        click.option("--env", "environment", metavar="ENV", help="Not needed when the settings name one only."),
        click.argument("name"),
    ):
        function = option(function)
    return function


@click.command(epilog=_EXIT_CODES)
@_decision
def promote(name: str, environment: str | None, dry_run: bool, reason: str | None, json_target: str | None) -> None:
    """Say in git that what an environment deploys is stable from now on.

    The mark changes no pod. `modelctl rollback` and NAME@stable:ENV go by it.

    \b
    modelctl promote qwen3-4b --env prod --reason "two days without a complaint"
    """
    from modelctl.rollout.steering import promote as carry_out

    _carry_out(carry_out, name, environment, dry_run=dry_run, reason=reason, json_target=json_target)


@click.command(epilog=_EXIT_CODES)
@_decision
def abort(name: str, environment: str | None, dry_run: bool, reason: str | None, json_target: str | None) -> None:
    """Withdraw the canary: the stable release's manifests are put back, as a new commit.

    \b
    modelctl abort qwen3-4b --env prod --reason "answers in the wrong language"
    """
    from modelctl.rollout.steering import abort as carry_out

    _carry_out(carry_out, name, environment, dry_run=dry_run, reason=reason, json_target=json_target)


@click.command(epilog=_EXIT_CODES)
@_decision
@click.option(
    "--to", "version", metavar="VERSION", help="One that was served here before; by default the last good one."
)
def rollback(
    name: str,
    environment: str | None,
    dry_run: bool,
    reason: str | None,
    json_target: str | None,
    version: str | None,
) -> None:
    """Put back the release that was served before, with the very manifests of then, as a new commit.

    \b
    modelctl rollback qwen3-4b --env prod --reason "incident 4711"
    modelctl rollback qwen3-4b --env prod --to 1.1.0 --dry-run
    """
    from functools import partial

    from modelctl.rollout.steering import rollback as carry_out

    chosen = partial(carry_out, to=version)
    _carry_out(chosen, name, environment, dry_run=dry_run, reason=reason, json_target=json_target)


def _carry_out(
    decide: Callable[[Path, Order], Steered],
    name: str,
    environment: str | None,
    *,
    dry_run: bool,
    reason: str | None,
    json_target: str | None,
) -> None:
    from modelctl.cli.output import console, write_json
    from modelctl.errors import InputError
    from modelctl.rollout.steering import Order
    from modelctl.settings import load_workspace

    workspace = load_workspace(Path.cwd())
    if "@" in name:
        raise InputError(
            f"'{name}': a decision is about a model in an environment, not about one version",
            remedy=f"name the model: {name.partition('@')[0]}",
        )
    environment = environment or workspace.only_environment()
    result = decide(workspace.root, Order(name=name, environment=environment, reason=reason, dry_run=dry_run))
    if json_target:
        write_json(json_target, _as_json(result, dry_run=dry_run))
    if json_target != "-" and dry_run:
        click.echo(result.diff, nl=False)
    out = console(stderr=dry_run or json_target == "-")
    if not result.changes:
        out.print(f"{environment}: nothing to change, {result.stable} is stable already", style="bold")
        return
    left = f" instead of {result.left}" if result.left else ""
    done = "would be" if dry_run else "is"
    out.print(f"{environment}: {result.stable} {done} stable{left}", style="bold" if dry_run else "bold green")
    out.print(f"served tree  {result.tree_digest}")
    for note in result.notes:
        out.print(f"note: {note}", style="yellow", soft_wrap=True)
    if result.commit:
        out.print(f"\ncommitted {result.commit[:12]}\nnext: git push, and Argo CD takes it from there", style="bold")


def _as_json(result: Steered, *, dry_run: bool) -> str:
    body = {
        "verb": result.verb,
        "environment": result.environment,
        "stable": result.stable,
        "left": result.left,
        "tree_digest": result.tree_digest,
        "dry_run": dry_run,
        "commit": result.commit,
        "files": [str(change.path) for change in result.changes],
        "notes": list(result.notes),
        "diff": result.diff,
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"
