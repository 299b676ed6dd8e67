"""`modelctl list`: the registry at a glance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelctl.cli.output import size_text

if TYPE_CHECKING:
    from modelctl.registry.summary import Summary
    from modelctl.rollout.standing import Standing

Roles = Mapping[str, Sequence[tuple[str, str]]]
"""`name@version` to (environment, `stable` or `canary`)."""


@click.command("list")
@click.argument("name", required=False)
@click.option("--env", "environment", metavar="ENV", help="Only what this environment serves.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
def list_releases(name: str | None, environment: str | None, as_json: bool) -> None:
    """The registry at a glance: every release, proposed, published or retired, and what each environment serves.

    Read from this registry repository alone; nothing is asked of the object store.

    \b
    modelctl list
    modelctl list qwen3-4b --json
    modelctl list --env prod
    """
    from modelctl.registry.summary import summaries
    from modelctl.rollout.standing import standings
    from modelctl.settings import load_workspace

    root = load_workspace(Path.cwd()).root
    roles = roles_of(standings(root))
    found = [
        item
        for item in summaries(root, name)
        if environment is None or environment in [place for place, _ in roles.get(item.id, ())]
    ]
    if as_json:
        click.echo(json.dumps([as_plain(item, roles) for item in found], indent=2, ensure_ascii=False))
        return
    if not found:
        what = f"no release of {name}" if name else "no release"
        where = f"{environment} serves {what}" if environment else f"{what} in {root / 'registry'}"
        click.echo(f"{where}; {_served(roles) if environment else _instead(root, name)}", err=True)
        return
    rows = [("release", "state", "size", "licence", "admitted", "environments"), *(_row(item, roles) for item in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        click.echo(click.style(line, bold=number == 0, dim=bool(number) and found[number - 1].state != "published"))


def require_known(root: Path, name: str) -> None:
    """Raise `InputError` when the registry has no release of this name."""
    from modelctl.errors import InputError
    from modelctl.registry.summary import summaries

    if not summaries(root, name):
        raise InputError(f"no release of {name} in {root / 'registry'}", remedy=_instead(root, name))


def _instead(root: Path, name: str | None) -> str:
    """What to do where there is no release of a name, or none at all."""
    from modelctl.model.release import similar_release

    close = similar_release(root, name) if name else None
    return f"did you mean {close.partition('@')[0]}?" if close else "propose one in registry/NAME/VERSION/release.yaml"


def _served(roles: Roles) -> str:
    places = sorted({place for items in roles.values() for place, _ in items})
    return f"these serve something: {', '.join(places)}" if places else "no environment serves anything"


def roles_of(standings: Sequence[Standing]) -> Roles:
    """What each release is in each environment."""
    roles: dict[str, list[tuple[str, str]]] = {}
    for item in standings:
        roles.setdefault(item.stable, []).append((item.environment, "stable"))
        if item.canary is not None:
            roles.setdefault(item.canary, []).append((item.environment, "canary"))
    return roles


def as_plain(item: Summary, roles: Roles) -> dict[str, object]:
    """One release as JSON values; keys are stable, and what is not known is left out."""
    plain: dict[str, object] = {
        "release": item.id,
        "name": item.name,
        "version": item.version,
        "state": item.state,
        "license": item.license,
    }
    if item.state != "proposed":
        plain |= {
            "tag": f"{item.name}@v{item.version}",
            "admitted_at": item.admitted_at,
            "published_at": item.published_at,
            "uri": item.uri,
            "served_digest": item.tree_digest,
            "size_bytes": item.size_bytes,
            "policy": item.policy,
            "key_id": item.key_id,
        }
    plain["environments"] = [{"environment": place, "role": role} for place, role in roles.get(item.id, ())]
    return plain


def _row(item: Summary, roles: Roles) -> tuple[str, ...]:
    size = "" if item.size_bytes is None else size_text(item.size_bytes)
    places = ", ".join(f"{place} ({role})" if role == "canary" else place for place, role in roles.get(item.id, ()))
    return (item.id, item.state, size, item.license or "", (item.admitted_at or "")[:10], places)
