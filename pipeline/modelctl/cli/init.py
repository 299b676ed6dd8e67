"""`modelctl init DIR`: lay down a registry repository for a team."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from modelctl.repository.laying import LaidDown


@click.command(epilog="Exit codes: 0 laid down, 2 something is in the way or an answer is unusable.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--bucket", metavar="NAME", help="The bucket of the published bytes.  [default: models]")
@click.option("--endpoint", metavar="URL", help="The object store; without it that of a laptop's modelctl services.")
@click.option("--region", metavar="NAME", help="The store's region, where it has any.")
@click.option(
    "--environment", "environments", metavar="NAME", multiple=True, help="Where models are served.  [default: prod]"
)
@click.option("--owner", metavar="@ORG/TEAM", help="Who must approve changes of what decides.")
@click.option("--repository", metavar="URL", help="Where Argo CD reaches the new repository.")
@click.option("--modelctl-source", metavar="SOURCE", help="Which modelctl the workflows install: one that can't move.")
@click.option(
    "--signer", "signers", metavar="FILE.pub", multiple=True, type=click.Path(path_type=Path, exists=True),
    help="A public key that may sign releases.",
)  # fmt: skip
@click.option("--missing", is_flag=True, help="Leave the files that are there, and add the others.")
@click.option("--yes", is_flag=True, help="Ask nothing; what is not given keeps its default.")
@click.option("--dry-run", is_flag=True, help="Name the files, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout; asks nothing.")
def init(
    folder: Path,
    bucket: str | None,
    endpoint: str | None,
    region: str | None,
    environments: tuple[str, ...],
    owner: str | None,
    repository: str | None,
    modelctl_source: str | None,
    signers: tuple[Path, ...],
    missing: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Lay down a registry repository: folders, policies, workflows, environments, DVC's remote and a README.

    A new folder becomes a git repository with its first commit; in one that is a repository already the files are left
    for you to commit. Nothing is overwritten. At a terminal the four answers that matter are asked for.

    \b
    modelctl init models
    modelctl init models --bucket models --endpoint https://minio.example.org --environment staging --environment prod
    modelctl init . --missing --dry-run
    """
    from modelctl.repository.laying import lay_down
    from modelctl.repository.plan import Plan, signer_line
    from modelctl.repository.program import own_program, parse_program

    if not (yes or as_json) and sys.stdin.isatty():
        bucket = bucket or _ask("bucket of the published bytes", "models")
        endpoint = endpoint or _ask("object store, https://host[:port] (empty: a laptop's own)", "") or None
        environments = environments or tuple(_ask("environments", "prod").replace(",", " ").split())
        owner = owner or _ask("who approves changes of policies, @ORG/TEAM (empty: decide later)", "") or None
    plan = Plan(
        bucket=bucket or "models",
        endpoint=endpoint,
        region=region,
        environments=environments or ("prod",),
        owner=owner,
        repository=repository,
        program=parse_program(modelctl_source) if modelctl_source else own_program(),
        signers=tuple(signer_line(path, _committer()) for path in signers),
    )
    done = lay_down(folder, plan, missing=missing, dry_run=dry_run)
    if as_json:
        click.echo(json.dumps(as_plain(done, dry_run=dry_run), indent=2, ensure_ascii=False))
        return
    _tell(done, dry_run=dry_run)


def as_plain(done: LaidDown, *, dry_run: bool) -> dict[str, object]:
    """All of it as JSON values; paths start at `folder`."""
    return {
        "folder": str(done.folder),
        "dry_run": dry_run,
        "written": list(done.written),
        "kept": list(done.kept),
        "commit": done.commit,
        "undecided": list(done.undecided),
    }


def _committer() -> str | None:
    from modelctl.git import Git

    return Git(Path.cwd()).run("config", "user.email", check=False).strip() or None


def _ask(question: str, default: str) -> str:
    answer: str = click.prompt(question, default=default, show_default=bool(default), err=True)
    return answer.strip()


def _tell(done: LaidDown, *, dry_run: bool) -> None:
    click.secho(f"{done.folder}: {len(done.written)} files {'would be' if dry_run else 'are'} written", bold=True)
    for path in done.written:
        click.echo(f"  {path}")
    if done.kept:
        click.echo(f"left as they are: {', '.join(done.kept)}")
    if done.commit:
        click.echo(f"a git repository with its first commit, {done.commit[:12]}")
    click.echo("\nstill to be decided:")
    for sentence in done.undecided:
        click.echo(f"  {sentence}")
    if dry_run:
        click.secho("\nnext: the same command without --dry-run", bold=True)
        return
    commit = "" if done.commit else " && git add --all && git commit"
    click.secho(f"\nnext: cd {done.folder}{commit} && modelctl new NAME --from ORG/MODEL", bold=True)
