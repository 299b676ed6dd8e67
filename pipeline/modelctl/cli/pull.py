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
    from modelctl.cli.output import size_text
    from modelctl.cli.progress import shown
    from modelctl.cli.releases import allowed_signers, find, find_in_bucket, open_store
    from modelctl.registry.pull import pull as run
    from modelctl.registry.trust import signers_of, trusted
    from modelctl.settings import load_workspace

    workspace = load_workspace(Path.cwd())
    if source is None:
        found = find(workspace, release)
        store = open_store(workspace, None)
    else:
        store = open_store(workspace, source, release)
        found = find_in_bucket(store, release)
    named = allowed_signers(workspace, signers)
    allowed = signers_of(workspace.root, named) if named or source is None else None
    with shown(quiet=quiet) as progress:
        if found.why:
            progress.note(found.why)
        trust = trusted(
            store,
            found.name,
            found.version,
            root=workspace.root,
            record=found.record,
            digest=digest or found.digest,
            signers=allowed,
        )
        if trust.signed is None:
            progress.note(
                f"the attestation of {found.id} was not verified: nobody says who may sign "
                "(policies/allowed_signers, --signers)"
            )
        if not trust.grounds():
            progress.note(f"nothing but the bucket's own list says what {found.id} is; --digest or --signers would")
        done = run(store, trust.served, folder, repair=repair, progress=progress)
    grounds = trust.grounds() or ("the bucket's own list",)
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
