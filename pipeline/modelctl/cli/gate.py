"""`modelctl gate DIR…`: merge the evidence of several runners and decide."""

from __future__ import annotations

from pathlib import Path

import click

from modelctl.cli.report_files import REPORT_OPTIONS, ReportFiles


@click.command(epilog="Exit codes: 0 admitted, 1 refused, 2 usage, 3 could not decide.")
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--release", metavar="NAME@VERSION|FILE", help="The release that the evidence must be of.")
@click.option("--policy", metavar="NAME|FILE", help="Judge by this policy instead of the default one.")
@click.option("--policy-ref", metavar="REF", help="Read policy, waivers and signers from this commit (origin/main).")
@click.option(
    "--evidence-dir", type=click.Path(path_type=Path), help="Also put the merged report and all evidence here."
)
@REPORT_OPTIONS
def gate(
    folders: tuple[Path, ...],
    release: str | None,
    policy: str | None,
    policy_ref: str | None,
    evidence_dir: Path | None,
    report_files: ReportFiles,
) -> int:
    """Merge the evidence folders of several runners and decide.

    Each DIR is what `modelctl admit … --evidence-dir DIR` wrote. Evidence that is of another release, other bytes or
    another policy, too old, incomplete, changed, weaker than the policy asks or without a signature that it demands is
    refused, with the reason.

    \b
    modelctl gate cpu gpu --release registry/NAME/1.0.0/release.yaml --policy-ref origin/main
    """
    from modelctl.admission.gate import GateRequest, keep
    from modelctl.admission.gate import gate as run
    from modelctl.admission.terminal import print_report
    from modelctl.cli.output import console
    from modelctl.settings import load_workspace

    request = GateRequest(
        folders=folders,
        workspace=load_workspace(Path.cwd()),
        release=release,
        policy=policy,
        policy_ref=policy_ref,
    )
    gated = run(request)
    if evidence_dir is not None:
        keep(gated, evidence_dir)
    report_files.write(gated.report)
    print_report(gated.report, console(stderr=report_files.on_stdout))
    return gated.report.exit_code
