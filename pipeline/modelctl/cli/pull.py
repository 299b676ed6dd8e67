"""`modelctl pull NAME@VERSION DIR`: a verified download."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(
    epilog="Exit codes: 0 whole and verified, 1 refused (other bytes, no allowed signature, strange files in DIR), "
    "2 usage or settings, 3 the store or the disk can't do it now, 130 interrupted."
)
@click.argument("release", metavar="NAME@VERSION")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--digest", metavar="sha256:HEX", help="The tree digest that it must be, as a deployment's pods carry it."
)
@click.option(
    "--from", "source", metavar="s3://BUCKET",
    help="Ask only this bucket: no git, no registry repository.",
)  # fmt: skip
@click.option(
    "--signers", metavar="FILE", type=click.Path(path_type=Path),
    help="Who may sign: by default policies/allowed_signers of the registry repository.",
)  # fmt: skip
@click.option("--repair", is_flag=True, help="Replace files of DIR that have other bytes than the release's.")
@click.option("--json", "as_json", is_flag=True, help="Write the result as JSON to stdout.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def pull(
    release: str,
    folder: Path,
    digest: str | None,
    source: str | None,
    signers: Path | None,
    repair: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Download a published release into DIR, verified.

    The list of files is believed first: the record in git, the digest and the signed attestation must name the same
    bytes, each where it is at hand. Each file is then hashed while it arrives, and DIR appears only when all of it is
    what was published. Running the command again resumes; right files of DIR are kept.

    VERSION may be latest, stable:ENV, canary:ENV or sha256:HEX.

    \b
    modelctl pull qwen3-4b@1.2.0 /models/qwen3-4b
    modelctl pull qwen3-4b@stable:prod ./qwen
    modelctl pull qwen3-4b@1.2.0 /models/qwen --from s3://models --digest sha256:…
    """
    from modelctl.api import pull as run
    from modelctl.cli.output import size_text
    from modelctl.cli.progress import shown
    from modelctl.settings import load_workspace

    workspace = load_workspace(Path.cwd())
    with shown(quiet=quiet) as progress:
        pulled = run(
            workspace,
            release,
            folder,
            digest=digest,
            source=source,
            signers=signers,
            repair=repair,
            progress=progress,
        )
    found, trust, done, grounds = pulled.found, pulled.trust, pulled.done, pulled.grounds
    served = trust.served
    if as_json:
        body = {
            "release": found.id,
            "folder": str(done.folder),
            "served_digest": served.tree_digest,
            "size_bytes": served.size_bytes,
            "files": len(served.files),
            "fetched": list(done.fetched),
            "kept": list(done.kept),
            "verified_against": list(grounds),
            "signed_by": list(trust.signed.principals) if trust.signed else [],
        }
        click.echo(json.dumps(body, indent=2, ensure_ascii=False))
        return
    click.secho(f"{found.id}: whole and verified against {' and '.join(grounds)}", fg="green", bold=True)
    click.echo(f"\nfolder       {folder}")
    kept = f", {len(done.kept)} of them there already" if done.kept else ""
    click.echo(f"files        {len(served.files)}{kept}, {size_text(served.size_bytes)}")
    click.echo(f"served tree  {served.tree_digest}")
