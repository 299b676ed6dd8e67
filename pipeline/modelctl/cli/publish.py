"""`modelctl publish NAME@VERSION`: upload an admitted release once, record it and tag it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from modelctl.registry.publish import Published


@click.command(
    epilog="Exit codes: 0 published (now or before), 1 refused, 2 usage, 3 the store or git could not do it, "
    "130 interrupted."
)
@click.argument("release", metavar="NAME@VERSION")
@click.option(
    "--report", "report_path", metavar="FILE", type=click.Path(path_type=Path),
    help="The admission's report; by default the one that modelctl admit kept.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Check everything, say what would be sent, and write nothing.")
@click.option("--json", "json_target", metavar="FILE|-", help="Also write the result as JSON; - is stdout.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def publish(release: str, report_path: Path | None, dry_run: bool, json_target: str | None, quiet: bool) -> None:
    """Upload an admitted release once, record it in git and tag it.

    The report must admit exactly the bytes on this disk, or those that admit --stage left in the bucket, whole, under
    the policy that holds now. Running the command again finishes what an interruption left, and sends nothing that is
    there. A release never changes: other bytes need a new version.

    \b
    modelctl publish qwen3-4b@1.2.0 --dry-run
    modelctl publish qwen3-4b@1.2.0
    """
    from modelctl.api import publish as run
    from modelctl.cli.output import console, write_json
    from modelctl.cli.progress import shown
    from modelctl.settings import load_workspace

    with shown(quiet=quiet) as progress:
        result = run(load_workspace(Path.cwd()), release, report=report_path, dry_run=dry_run, progress=progress)
    if json_target:
        write_json(json_target, _as_json(result, dry_run=dry_run))
    again = f"modelctl publish {release}" + (f" --report {report_path}" if report_path else "")
    _tell(result, again=again if dry_run else None, out=console(stderr=json_target == "-"))


def _tell(result: Published, *, again: str | None, out: Console) -> None:
    """`again`: the command that does what a dry run only tried."""
    from rich.filesize import decimal

    dry_run = again is not None
    words = {"send": "sent", "copy": "copied on the server", "keep": "there already"}
    if dry_run:
        words |= {"send": "to send", "copy": "to copy on the server"}
    sizes = [(word, result.bytes_of(action)) for action, word in words.items()]
    if dry_run:
        out.print(f"{result.release}: may be published; nothing was written", style="bold")
    elif result.manifest_existed and not result.bytes_of("send"):
        out.print(f"{result.release}: published already, with these very bytes", style="bold green")
    else:
        out.print(f"{result.release}: published", style="bold green")
    out.print(f"\nfiles        {len(result.steps)} at {result.served.uri}/", soft_wrap=True)
    moved = ", ".join(f"{decimal(size)} {word}" for word, size in sizes if size) or "nothing to send"
    out.print(f"bytes        {moved}")
    out.print(f"served tree  {result.served.tree_digest}")
    out.print(f"signed by    {result.identity or result.key_id}", soft_wrap=True)
    if result.capabilities:
        can = result.capabilities
        out.print(
            f"store        has {', '.join(can.has()) or 'nothing more'}; lacks {', '.join(can.lacks()) or 'nothing'}"
        )
    if result.retained_until:
        out.print(f"retained     until {result.retained_until:%Y-%m-%d %H:%M} UTC")
    if result.commit:
        out.print(f"git          commit {result.commit[:12]}, tag {result.tag}")
        out.print("\nnext: git push --follow-tags", style="bold")
        out.print(f"      modelctl rollout {result.release} --env ENVIRONMENT", style="bold")
    else:
        out.print(f"\nnext: {again}", style="bold", soft_wrap=True)


def _as_json(result: Published, *, dry_run: bool) -> str:
    body = {
        "release": result.release,
        "uri": result.served.uri,
        "served_digest": result.served.tree_digest,
        "size_bytes": result.served.size_bytes,
        "files": [
            {**step.entry._asdict(), "action": step.action, "source": step.source.key if step.source else None}
            for step in result.steps
        ],
        "dry_run": dry_run,
        "published_before": result.manifest_existed,
        "store_can": dataclasses.asdict(result.capabilities) if result.capabilities else None,
        "retained_until": result.retained_until.isoformat() if result.retained_until else None,
        "commit": result.commit,
        "tag": result.tag,
        "key_id": result.key_id,
        "identity": result.identity,
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"
