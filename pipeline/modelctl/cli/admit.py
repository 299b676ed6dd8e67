"""`modelctl admit REPO`: run the checks and decide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from modelctl.checks import CHECK_IDS
from modelctl.cli.report_files import REPORT_OPTIONS, ReportFiles

if TYPE_CHECKING:
    from modelctl.admission.admit import Admission
    from modelctl.progress import Progress
    from modelctl.registry.store import ObjectStore
    from modelctl.settings import Workspace

_CHECKS = ", ".join(CHECK_IDS) + ", or an own check of the policy"


def _known_checks(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a misspelt check before anything is fetched; those of installed packages may be named too."""
    unknown = [name for name in given if name not in CHECK_IDS]
    if unknown:
        from modelctl.admission.own_checks import installed
        from modelctl.documents import nearest

        known = [*CHECK_IDS, *installed()]
        for name in unknown:
            if name not in known:
                close = nearest(name, known)
                hint = f" Did you mean '{close}'?" if close else ""
                raise click.BadParameter(f"'{name}' is not one of {', '.join(known)}.{hint}")
    return given


@click.command(epilog="Exit codes: 0 admitted, 1 refused, 2 usage, 3 could not decide, 130 interrupted.")
@click.argument("repo")
@click.option("--policy", metavar="NAME|FILE", help="Judge by this policy instead of the release's own.")
@click.option(
    "--policy-ref",
    metavar="REF",
    help="Read policy and waivers from this commit (origin/main), not from the folder here.",
)
@click.option(
    "--check",
    "checks",
    multiple=True,
    metavar="CHECK",
    callback=_known_checks,
    help=f"Run only this check; repeatable: {_CHECKS}.",
)
@click.option("--upstream", metavar="ORG/NAME@COMMIT", help="Compare REPO (a mirror) with this repository's listing.")
@click.option("--sign", is_flag=True, help="Sign the evidence as the settings say, for modelctl gate.")
@REPORT_OPTIONS
@click.option("--evidence-dir", metavar="DIR|s3://…", help="Where raw evidence and report.json go.")
@click.option("--stage", is_flag=True, help="Leave what was quantised here in the bucket, for publish elsewhere.")
@click.option("--clamd", metavar="SOCKET|HOST:PORT", help="A running clamd.")
@click.option("--endpoint", metavar="URL", help="A running OpenAI-compatible engine that serves the model.")
@click.option("--engine", metavar="COMMAND", help="How to start an engine; {model} stands for the model's folder.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def admit(
    repo: str,
    policy: str | None,
    policy_ref: str | None,
    checks: tuple[str, ...],
    upstream: str | None,
    sign: bool,
    evidence_dir: str | None,
    stage: bool,
    clamd: str | None,
    endpoint: str | None,
    engine: str | None,
    quiet: bool,
    report_files: ReportFiles,
) -> int:
    """Run the admission checks on REPO and decide.

    REPO is a release file, NAME@VERSION of this registry, a folder, a Hub id (org/name[@commit]), an S3 prefix
    (s3://bucket/prefix) or a DVC pointer (weights.dvc).

    \b
    modelctl admit registry/qwen3-4b/1.0.0/release.yaml
    modelctl admit ./model --policy demo --check integrity --check malware
    modelctl admit s3://mirror/name --upstream org/name@COMMIT
    modelctl admit org/name@COMMIT --json report.json --evidence-dir evidence
    modelctl admit qwen3-4b@1.0.0 --stage --evidence-dir s3://models/evidence
    """
    from modelctl.admission.admit import Request
    from modelctl.admission.admit import admit as run
    from modelctl.admission.evidence_signature import SIGNATURE_FILE, sign_evidence
    from modelctl.admission.evidence_store import evidence_prefix, is_remote, send_evidence
    from modelctl.admission.signing import load_signer
    from modelctl.cli.output import deliver
    from modelctl.cli.progress import shown
    from modelctl.files import write_whole
    from modelctl.model.s3_client import S3Client
    from modelctl.registry.store import ObjectStore
    from modelctl.settings import load_workspace

    workspace = load_workspace(
        Path.cwd(), options={"clamd": clamd, "engine.endpoint": endpoint, "engine.command": engine}
    )
    remote = evidence_dir if evidence_dir and is_remote(evidence_dir) else None
    client = None
    if remote:
        evidence_prefix(remote)
        client = S3Client.open(workspace.settings.store, state=workspace.state)
    store = ObjectStore.open(workspace.settings.store, state=workspace.state) if stage else None
    request = Request(
        repo=repo,
        workspace=workspace,
        policy=policy,
        policy_ref=policy_ref,
        checks=checks,
        evidence_dir=Path(evidence_dir) if evidence_dir and not remote else None,
        upstream=upstream,
    )
    signer = load_signer(workspace) if sign else None  # one that can't sign is known before hours of checks
    with shown(quiet=quiet) as progress:
        admission = run(request, progress)
    report = admission.report
    out = deliver(admission, report_files, beside="raw evidence")
    (admission.evidence_dir / SIGNATURE_FILE).unlink(missing_ok=True)  # it would be of an earlier report
    if signer is not None:
        write_whole(admission.evidence_dir / SIGNATURE_FILE, sign_evidence(report, signer))
    if remote and client:
        with shown(quiet=quiet) as progress:
            files = send_evidence(admission.evidence_dir, report, remote, client, progress)
        out.print(f"{files} files of evidence are at {remote}", highlight=False)
    if store is not None:
        with shown(quiet=quiet) as progress:
            out.print(_staged(store, admission, progress), highlight=False, soft_wrap=True)
    release = report.model.release
    if release and (published := _published(workspace, release, report.model.served_digest)):
        out.print(published, style="bold", highlight=False)
    elif report.verdict == "admitted" and release and not report.partial:
        out.print(f"next: modelctl publish {release}", style="bold")
    return report.exit_code


def _staged(store: ObjectStore, admission: Admission, progress: Progress) -> str:
    """Stage the served tree where it was made here and nothing speaks against it; returns what to say of that."""
    from modelctl.registry.staged import stage

    served = admission.served
    if served is None or served.digest == admission.report.model.source_digest:
        return "nothing to stage: what is served is the source itself"
    if admission.report.verdict == "refused":
        return "nothing was staged: the model is refused"
    sent = stage(store, served, progress)
    return f"the served tree is staged in {store.place}" + ("" if sent else ", since an earlier run")


def _published(workspace: Workspace, release: str, served_digest: str | None) -> str | None:
    """What to say of a release that has its record already: whether this run judged the bytes that it serves."""
    from modelctl.model.release import parse_release_id, release_folder
    from modelctl.registry.names import RECORD_FILE
    from modelctl.registry.records import load_record

    name, version = parse_release_id(release)
    if not (release_folder(workspace.root, name, version) / RECORD_FILE).is_file():
        return None
    published = load_record(workspace.root, name, version).served.tree_digest
    if served_digest is None:
        return f"{release} is published already; this run made nothing that could be served"
    if served_digest == published:
        return f"{release} is published already, with the bytes that were judged here"
    return (
        f"{release} is published already, with other bytes ({published}) than were judged here ({served_digest}): "
        f"modelctl pull {release} brings those that are served"
    )
