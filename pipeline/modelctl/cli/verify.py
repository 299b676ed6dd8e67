"""`modelctl verify DIR|NAME@VERSION`: a folder, the bucket, and what git says of them, held against each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from modelctl.cli.verifying import Outcome


@click.command(
    epilog="Exit codes: 0 everything agrees, 1 something differs, 2 usage or settings, 3 something could not be "
    "checked, 130 interrupted."
)
@click.argument("targets", metavar="DIR|NAME@VERSION [DIR]", nargs=-1, required=True)
@click.option("--full", is_flag=True, help="Read every byte of the bucket's objects.")
@click.option("--sample", metavar="N", type=click.IntRange(min=0), default=0, help="Read all bytes of N random files.")
@click.option("--from", "source", metavar="s3://BUCKET", help="Ask only this bucket: no git, no registry repository.")
@click.option("--digest", metavar="sha256:HEX", help="The tree digest that it must be.")
@click.option(
    "--signers", metavar="FILE", type=click.Path(path_type=Path),
    help="Who may sign: by default policies/allowed_signers of the registry repository.",
)  # fmt: skip
@click.option("--attestation", is_flag=True, help="Also say who signed, when, and what was proven.")
@click.option("--json", "as_json", is_flag=True, help="Write the result as JSON to stdout.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def verify(
    targets: tuple[str, ...],
    full: bool,
    sample: int,
    source: str | None,
    digest: str | None,
    signers: Path | None,
    attestation: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Check bytes against what was published, and every claim about a release against the others.

    A folder is hashed whole; which release it is follows from its bytes, unless one is named too. Of a release, the
    bucket's names, sizes and announced hashes are compared, and bytes as far as --full or --sample say.

    \b
    modelctl verify /models/qwen3-4b
    modelctl verify qwen3-4b@1.2.0 --sample 3
    modelctl verify qwen3-4b@stable:prod /models/qwen3-4b --attestation
    """
    from modelctl.cli.attested import attestation_lines
    from modelctl.cli.progress import shown
    from modelctl.cli.verifying import Wanted, run
    from modelctl.settings import load_workspace

    wanted = Wanted.parse(targets, full=full, sample=sample, source=source, digest=digest, signers=signers)
    with shown(quiet=quiet) as progress:
        outcome = run(load_workspace(Path.cwd()), wanted, progress)
    if as_json:
        click.echo(json.dumps(outcome.as_plain(), indent=2, ensure_ascii=False))
        return outcome.exit_code
    _tell(outcome)
    if attestation:
        for line in attestation_lines(outcome.signed):
            click.echo(line)
    return outcome.exit_code


_MARKS = {"agrees": ("✓", "green"), "contradicts": ("✗", "red"), "unchecked": ("?", "yellow")}


def _tell(outcome: Outcome) -> None:
    words = {0: ("everything agrees", "green"), 1: ("something differs", "red"), 3: ("not all was checked", "yellow")}
    text, colour = words[outcome.exit_code]
    click.secho(f"{outcome.release}: {text}", fg=colour, bold=True)
    click.echo(f"served tree  {outcome.digest}\n")
    width = max((len(claim.what) for claim in outcome.claims), default=0)
    for claim in outcome.claims:
        mark, colour = _MARKS[claim.state]
        click.echo(click.style(f"{mark} {claim.what:<{width}}  ", fg=colour) + claim.detail)
        if claim.state != "agrees" and claim.remedy:
            click.echo(click.style(f"  next: {claim.remedy}", dim=True))
    for line in outcome.differences:
        click.secho(f"  {line}", fg="red")
