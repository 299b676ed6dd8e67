"""`modelctl pull NAME@VERSION DIR`: a verified download."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(epilog="Exit codes: 0 verified, 1 the bytes differ, 2 usage, 3 the store can't do it, 130 interrupted.")
@click.argument("release", metavar="NAME@VERSION")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--digest", metavar="sha256:HEX", help="The tree digest that it must be, as a deployment's pods carry it."
)
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def pull(release: str, folder: Path, digest: str | None, quiet: bool) -> None:
    """Download a published release into DIR, verified.

    Each file is hashed while it arrives; DIR appears only when all of it is what was published, and running the command
    again resumes. Within the registry repository the record in git decides what was published; elsewhere --digest
    does, or else only the bucket's own list can, and that is said.

    \b
    modelctl pull qwen3-4b@1.2.0 /models/qwen3-4b
    """
    from rich.filesize import decimal

    from modelctl.cli.output import console
    from modelctl.cli.progress import shown
    from modelctl.model.release import parse_release_id, release_folder
    from modelctl.registry.pull import pull as run
    from modelctl.registry.records import RECORD_FILE, load_record
    from modelctl.registry.store import ObjectStore
    from modelctl.settings import load_workspace

    workspace = load_workspace(Path.cwd())
    name, version = parse_release_id(release)
    recorded = (release_folder(workspace.root, name, version) / RECORD_FILE).is_file()
    record = load_record(workspace.root, name, version) if recorded else None
    store = ObjectStore.open(workspace.settings.store, state=workspace.state)
    with shown(quiet=quiet) as progress:
        if record is None and digest is None:
            progress.note(f"no record of {release} in {workspace.root}: the bucket's own list is believed")
        served = run(store, name, version, folder, record=record, digest=digest, progress=progress)
    out = console()
    against = "the record in git" if record else "the digest given" if digest else "the bucket's own list"
    out.print(f"{release}: whole and verified against {against}", style="bold green")
    out.print(f"\nfolder       {folder}", soft_wrap=True)
    out.print(f"files        {len(served.files)}, {decimal(served.size_bytes)}")
    out.print(f"served tree  {served.tree_digest}")
