"""`modelctl status`: what each environment serves, from git, and from the cluster where it can be asked."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from modelctl.rollout.cluster import ClusterState, NotRead
    from modelctl.rollout.past import Deployment
    from modelctl.rollout.standing import Standing


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model in one environment."""

    standing: Standing
    since: Deployment | None
    cluster: ClusterState | NotRead | None
    """None when only git was asked."""


@click.command(epilog="Exit codes: 0 shown, 2 usage or a manifest that names no release, 3 git could not do it.")
@click.option("--env", "environment", metavar="ENV", help="Only this environment.")
@click.option("--cluster", is_flag=True, help="Ask the cluster too, through kubectl.")
@click.option("--context", metavar="NAME", help="kubectl's context; by default the current one. Implies --cluster.")
@click.option("--json", "json_target", metavar="FILE|-", help="Also write it as JSON; - is stdout.")
def status(environment: str | None, cluster: bool, context: str | None, json_target: str | None) -> None:
    """Stable and canary of every environment.

    Git says what is meant; with --cluster, Argo Rollouts says how far it is.

    \b
    modelctl status
    modelctl status --env prod --cluster
    """
    from modelctl.cli.output import write_json
    from modelctl.rollout.environment import load_environment
    from modelctl.rollout.standing import standings
    from modelctl.settings import load_workspace

    root = load_workspace(Path.cwd()).root
    if environment is not None:
        load_environment(root, environment)
    found = [item for item in standings(root) if environment in (None, item.environment)]
    rows = [_row(root, item, ask=cluster or context is not None, context=context) for item in found]
    if json_target:
        write_json(json_target, _as_json(rows))
    if json_target != "-":
        _print(rows)


def _row(root: Path, standing: Standing, *, ask: bool, context: str | None) -> Row:
    from modelctl.rollout.cluster import cluster_state
    from modelctl.rollout.environment import load_environment
    from modelctl.rollout.past import deployments_of

    since = None
    for item in deployments_of(root, standing):  # the newest first: back to where the release came
        if item.release != standing.deployed:
            break
        since = item
    namespace = load_environment(root, standing.environment).namespace
    state = cluster_state(standing.folder, namespace, context=context) if ask else None
    return Row(standing=standing, since=since, cluster=state)


def _print(rows: list[Row]) -> None:
    from rich.table import Table

    from modelctl.cli.output import console
    from modelctl.rollout.cluster import ClusterState

    out = console()
    if not rows:
        out.print("nothing is rolled out: modelctl rollout NAME@VERSION --env ENV")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    asked = any(row.cluster is not None for row in rows)
    for column in ("environment", "stable", "canary", "since", *(["cluster"] if asked else [])):
        table.add_column(column, overflow="fold")
    for row in rows:
        item = row.standing
        cells = [
            item.environment,
            item.stable,
            item.canary or "",
            f"commit {row.since.commit[:8]}" if row.since else "",
        ]
        table.add_row(*cells, *([str(row.cluster)] if asked else []))
    out.print(table)
    for row in rows:
        item = row.standing
        if isinstance(row.cluster, ClusterState) and row.cluster.release != item.deployed:
            out.print(
                f"note: git deploys {item.deployed} to {item.environment}, the cluster has {row.cluster.release}: "
                "Argo CD has not synced yet, or cannot",
                style="yellow",
                soft_wrap=True,
            )


def _as_json(rows: list[Row]) -> str:
    from modelctl.rollout.cluster import ClusterState

    body = [
        {
            "environment": row.standing.environment,
            "name": row.standing.folder,
            "stable": row.standing.stable,
            "canary": row.standing.canary,
            "deployed": row.standing.deployed,
            "tree_digest": row.standing.digest,
            "promoted": row.standing.promoted,
            "commit": row.since.commit if row.since else None,
            "cluster": asdict(row.cluster) if isinstance(row.cluster, ClusterState) else None,
            "cluster_not_read": str(row.cluster) if row.cluster and not isinstance(row.cluster, ClusterState) else None,
        }
        for row in rows
    ]
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"
