"""`modelctl gate DIR…`: merge the evidence of several runners and decide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelctl.cli.report_files import REPORT_OPTIONS, ReportFiles

if TYPE_CHECKING:
    from modelctl.settings import Workspace


@click.command(epilog="Exit codes: 0 admitted, 1 refused, 2 usage, 3 could not decide.")
@click.argument("folders", metavar="DIR|s3://...", nargs=-1, required=True)
@click.option("--release", metavar="NAME@VERSION|FILE", help="The release that the evidence must be of.")
@click.option("--policy", metavar="NAME|FILE", help="Judge by this policy instead of the default one.")
@click.option("--policy-ref", metavar="REF", help="Read policy, waivers and signers from this commit (origin/main).")
@click.option(
    "--evidence-dir", type=click.Path(path_type=Path), help="Also put the merged report and all evidence here."
)
@REPORT_OPTIONS
def gate(
    folders: tuple[str, ...],
    release: str | None,
    policy: str | None,
    policy_ref: str | None,
    evidence_dir: Path | None,
    report_files: ReportFiles,
) -> int:
    """Merge the evidence folders of several runners and decide.

    Each DIR is what `modelctl admit … --evidence-dir DIR` wrote; a prefix of the object store is fetched first.
    Evidence that is of another release, other bytes or another policy, too old, incomplete, changed, weaker than the
    policy asks or without a signature that it demands is refused, with the reason.

    \b
    modelctl gate cpu gpu --release registry/NAME/1.0.0/release.yaml --policy-ref origin/main
    modelctl gate cpu s3://evidence/run-7/gpu --release NAME@1.0.0
    """
    from modelctl.admission.gate import GateRequest, keep
    from modelctl.admission.gate import gate as run
    from modelctl.admission.terminal import print_report
    from modelctl.cli.output import console
    from modelctl.settings import load_workspace

    workspace = load_workspace(Path.cwd())
    request = GateRequest(
        folders=tuple(_at_hand(folder, workspace) for folder in folders),
        workspace=workspace,
        release=release,
        policy=policy,
        policy_ref=policy_ref,
    )
    gated = run(request)
    if evidence_dir is not None:
        keep(gated, evidence_dir)
    report_files.write(gated.report, [item.folder for item in gated.evidence])
    print_report(gated.report, console(stderr=report_files.on_stdout))
    return gated.report.exit_code


def _at_hand(place: str, workspace: Workspace) -> Path:
    """A folder of this disk: the one that is named, or what lies at an S3 prefix."""
    if "://" not in place:  # most often: then nothing that talks to an object store is loaded
        return Path(place)
    from modelctl.admission.evidence_store import fetch_evidence, is_remote
    from modelctl.cli.main import say
    from modelctl.model.s3_client import S3Client

    if not is_remote(place):
        return Path(place)
    client = S3Client.open(workspace.settings.store, state=workspace.state)
    folder = fetch_evidence(place, client, workspace.make_state() / "store")
    say(f"{place} is read from {folder}")
    return folder
