"""`modelctl admit REPO`: run the checks and decide."""

from __future__ import annotations

from pathlib import Path

import click

from modelctl.checks import CHECK_IDS


@click.command(epilog="Exit codes: 0 admitted, 1 refused, 2 usage, 3 could not decide, 130 interrupted.")
@click.argument("repo")
@click.option("--policy", metavar="NAME|FILE", help="Judge by this policy instead of the release's own.")
@click.option("--check", "checks", multiple=True, type=click.Choice(CHECK_IDS), help="Run only this check; repeatable.")
@click.option("--json", "json_target", metavar="FILE|-", help="Also write the report as JSON; - is stdout.")
@click.option("--evidence-dir", type=click.Path(path_type=Path), help="Where raw evidence and report.json go.")
@click.option("--clamd", metavar="SOCKET|HOST:PORT", help="A running clamd.")
@click.option("--endpoint", metavar="URL", help="A running OpenAI-compatible engine that serves the model.")
@click.option("--engine", metavar="COMMAND", help="How to start an engine; {model} stands for the model's folder.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def admit(
    repo: str,
    policy: str | None,
    checks: tuple[str, ...],
    json_target: str | None,
    evidence_dir: Path | None,
    clamd: str | None,
    endpoint: str | None,
    engine: str | None,
    quiet: bool,
) -> int:
    """Run the admission checks on REPO and decide.

    REPO is a release file, NAME@VERSION of this registry, a folder, or a Hub id (org/name[@commit]).

    \b
    modelctl admit registry/qwen3-4b/1.0.0/release.yaml
    modelctl admit ./model --policy demo --check integrity --check malware
    modelctl admit org/name@COMMIT --json report.json --evidence-dir evidence
    """
    from modelctl.admission.admit import Request
    from modelctl.admission.admit import admit as run
    from modelctl.admission.terminal import print_report
    from modelctl.cli.output import console, write_json
    from modelctl.cli.progress import shown
    from modelctl.files import write_whole
    from modelctl.settings import load_workspace

    workspace = load_workspace(
        Path.cwd(), options={"clamd": clamd, "engine.endpoint": endpoint, "engine.command": engine}
    )
    request = Request(repo=repo, workspace=workspace, policy=policy, checks=checks, evidence_dir=evidence_dir)
    with shown(quiet=quiet) as progress:
        admission = run(request, progress)
    report = admission.report
    kept = admission.evidence_dir / "report.json"
    write_whole(kept, report.to_json())
    if json_target:
        write_json(json_target, report.to_json())
    out = console(stderr=json_target == "-")
    print_report(report, out)
    out.print(f"\nreport and raw evidence: {kept.parent}", style="dim")
    if report.verdict == "admitted" and report.model.release and not report.partial:
        out.print(f"next: modelctl publish {report.model.release}", style="bold")
    return report.exit_code
