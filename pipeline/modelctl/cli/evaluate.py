"""`modelctl evaluate REPO --against BASELINE`: does one model answer as well as another?"""

from __future__ import annotations

from pathlib import Path

import click

from modelctl.cli.report_files import REPORT_OPTIONS, ReportFiles


@click.command(epilog="Exit codes: 0 as good, 1 worse, 2 usage, 3 could not decide, 130 interrupted.")
@click.argument("repo")
@click.option("--against", required=True, metavar="BASELINE", help="The original, named as REPO may be.")
@click.option("--tasks", metavar="NAME,…", help="Ask these tasks of lm-eval instead of the policy's.")
@click.option("--questions", type=int, metavar="N", help="Ask so many; as many as the policy says unless given.")
@click.option("--policy", metavar="NAME|FILE", help="Judge by this policy instead of the settings' own.")
@REPORT_OPTIONS
@click.option("--evidence-dir", type=click.Path(path_type=Path), help="Where both answers to each question go.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def evaluate(
    repo: str,
    against: str,
    tasks: str | None,
    questions: int | None,
    policy: str | None,
    evidence_dir: Path | None,
    quiet: bool,
    report_files: ReportFiles,
) -> int:
    """Ask REPO and BASELINE the same questions, and decide whether REPO answers as well.

    REPO and BASELINE are folders, Hub ids (org/name[@commit]), S3 prefixes, DVC pointers, or releases whose weights are
    served as they are. The verdict is that of the check `quantization`: answers are compared question by question, and
    a difference that is not clear decides nothing. A run that was interrupted goes on where it stopped.

    \b
    modelctl evaluate ./model-4bit --against ./model
    modelctl evaluate ./model-4bit --against org/name@COMMIT --tasks mmlu_stem,mmlu_humanities --questions 3000
    modelctl evaluate ./model-4bit --against ./model --policy demo --json -
    """
    from modelctl.admission.comparison import Comparison, compare
    from modelctl.cli.output import deliver
    from modelctl.cli.progress import shown
    from modelctl.settings import load_workspace

    comparison = Comparison(
        repo=repo,
        against=against,
        workspace=load_workspace(Path.cwd()),
        policy=policy,
        tasks=tuple(name.strip() for name in tasks.split(",") if name.strip()) if tasks else (),
        questions=questions,
        evidence_dir=evidence_dir,
    )
    with shown(quiet=quiet) as progress:
        admission = compare(comparison, progress)
    deliver(admission, report_files, beside="both answers to each question")
    return admission.report.exit_code
