"""`modelctl list`: the registry at a glance."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("list")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
def list_releases(name: str | None, as_json: bool) -> None:
    """The registry at a glance: every release, proposed or published.

    Read from this registry repository alone; nothing is asked of the object store.

    \b
    modelctl list
    modelctl list qwen3-4b --json
    """
    from modelctl.registry.records import list_records, proposed_releases
    from modelctl.settings import load_workspace

    root = load_workspace(Path.cwd()).root
    records = [record for record in list_records(root) if name in (None, record.metadata.name)]
    proposed = [metadata for metadata in proposed_releases(root) if name in (None, metadata.name)]
    if as_json:
        rows: list[dict[str, object]] = [
            {
                "release": record.id,
                "state": "published",
                "published_at": record.published_at,
                "uri": record.served.uri,
                "served_digest": record.served.tree_digest,
                "size_bytes": record.served.size_bytes,
                "policy": record.policy.name,
                "key_id": record.evidence.key_id,
            }
            for record in records
        ]
        rows += [{"release": f"{item.name}@{item.version}", "state": "proposed"} for item in proposed]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    if not records and not proposed:
        what = f"no release of {name}" if name else "no release"
        click.echo(f"{what} in {root / 'registry'}; propose one in registry/NAME/VERSION/release.yaml", err=True)
        return
    from rich.filesize import decimal
    from rich.table import Table

    from modelctl.cli.output import console

    table = Table("release", "state", "published", "size", "policy", "served tree", box=None, pad_edge=False)
    for record in records:
        served = record.served
        digest = served.tree_digest.removeprefix("sha256:")[:12]
        table.add_row(
            record.id, "published", record.published_at, decimal(served.size_bytes), record.policy.name, digest
        )
    for item in proposed:
        table.add_row(f"{item.name}@{item.version}", "proposed", "", "", "", "", style="dim")
    console().print(table)
