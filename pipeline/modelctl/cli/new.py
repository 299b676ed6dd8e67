"""`modelctl new NAME --from REPO`: write a release file with what can be read of the model."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(epilog="Exit codes: 0 written, 2 a name, version or origin is unusable, 3 the Hub could not be asked.")
@click.argument("name", metavar="NAME")
@click.option(
    "--from",
    "origin",
    metavar="REPO",
    required=True,
    help="Hub id ORG/NAME[@REVISION], folder, s3:// prefix or FILE.dvc.",
)
@click.option("--version", default="1.0.0", show_default=True, metavar="X.Y.Z", help="The release's version.")
@click.option("--quantize", "bits", type=click.Choice(["4", "8"]), help="Let modelctl make GPTQ weights of that many.")
@click.option("--gpu", metavar="NAME", help="Plan for this GPU: how many a replica needs, and how many streams fit.")
@click.option("--policy", default=None, metavar="NAME", help="The policy to be admitted by.  [default: the settings']")
@click.option("--dry-run", is_flag=True, help="Print the file, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout.")
def new(
    name: str,
    origin: str,
    version: str,
    bits: str | None,
    gpu: str | None,
    policy: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Propose a release: write registry/NAME/VERSION/release.yaml.

    The commit is pinned; licence, length and what it takes to serve are read from the model card, config.json and the
    headers, without the weights. What a person must decide is marked 'decide'.

    \b
    modelctl new qwen3-4b --from Qwen/Qwen3-4B
    modelctl new qwen3-4b-int4 --from Qwen/Qwen3-4B --quantize 4 --gpu L4
    modelctl new ours --from ./fine-tuned --version 1.1.0 --dry-run
    """
    from modelctl.repository.proposal import Wish, propose
    from modelctl.settings import load_workspace

    workspace = load_workspace(Path.cwd())
    wish = Wish(
        name=name, version=version, origin=origin, bits=int(bits) if bits else None, gpu=gpu,
        policy=policy or workspace.settings.policy,
    )  # fmt: skip
    proposal = propose(wish, workspace, dry_run=dry_run)
    if as_json:
        document = {"path": str(proposal.path), "text": proposal.text, "undecided": list(proposal.open_questions)}
        click.echo(json.dumps(document | {"dry_run": dry_run}, indent=2, ensure_ascii=False))
        return
    if dry_run:
        click.echo(proposal.text, nl=False)
        return
    click.secho(f"{_here(proposal.path)} is written", bold=True)
    if proposal.open_questions:
        click.echo("\nyours to decide, marked in it:")
        for question in proposal.open_questions:
            click.echo(f"  {question}")
    begin = "decide these in the file, then " if proposal.open_questions else ""
    click.secho(f"\nnext: {begin}modelctl admit {name}@{version}", bold=True)


def _here(path: Path) -> Path:
    """The path from the current folder on, where it lies below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
