"""Code: no Python, hook, notebook or template in the repository does what a model has no need of.

Python is found by name and by content and read in an isolated child, with rules of our own and with bandit hardened
against the repository's own wishes. `auto_map` and the like are refused whatever they point at, unless the policy
lets the repository's own code in.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from modelctl import worker
from modelctl.checks import code_report
from modelctl.checks.base import CheckContext, Coverage, Observation, Undecided
from modelctl.checks.code_report import Judged
from modelctl.checks.limits import CodeLimits
from modelctl.errors import CannotDecideError
from modelctl.scan.bandit_run import run_bandit
from modelctl.scan.code_files import gather
from modelctl.scan.gathered import Gathered, Unit

WORKER_MEMORY_BYTES = 4 << 30


class Code:
    """See the module."""

    id: ClassVar[str] = "code"
    decides: ClassVar[str] = "Nothing in the repository runs code that a model has no need of, or makes a loader do so"
    scope: ClassVar[Literal["tree", "release"]] = "tree"
    headline: ClassVar[tuple[str, ...]] = ("python-files", "templates")

    def run(self, context: CheckContext[CodeLimits]) -> Observation:
        """Examine every file of the tree. Raises `CannotDecideError` when the child or bandit fails."""
        tree = context.tree
        with context.progress.task("look for code", total=tree.size_bytes, unit="bytes") as task:
            try:
                gathered = gather(tree, scratch=context.workdir, advance=task.advance)
            except OSError as error:
                raise CannotDecideError(
                    f"{error.filename}: {error.strerror}", remedy="make the file readable"
                ) from error
        staged = _stage(gathered.units, context.workdir)
        judged = _parse(context, gathered, staged)
        python = [number for number, unit in enumerate(judged.units) if unit["is_code"]]
        code = [gathered.units[number] for number in python]
        severity, confidence = context.limits.severity, context.limits.confidence
        findings = [
            *code_report.of_problems(gathered, allow_own_code=context.limits.allow_own_code),
            *code_report.of_templates(gathered, judged),
            *code_report.of_units(gathered.units, judged),
        ]
        warnings = list(code_report.warnings(gathered, judged))
        tools: dict[str, str] = {}
        undecided: list[Undecided] = []
        if code:
            bandit = run_bandit(
                [staged[number] for number in python],
                sandbox=context.resources.sandbox,
                folder=staged[0].parent,
                time_limit_s=context.limits.time_limit_s,
            )
            tools["bandit"] = bandit.version
            context.evidence.keep(f"bandit-{context.role}.json", code_report.evidence(bandit, code))
            findings += code_report.of_bandit(bandit, code, findings, severity=severity, confidence=confidence)
            warnings += [
                f"{code[issue.unit].label}:{issue.line}: {issue.text} ({issue.test})"
                for issue in bandit.issues
                if issue.test in code_report.WARNED
            ]
            undecided += [
                Undecided(reason=f"{code[number].label}: bandit did not look at it") for number in bandit.unseen
            ]
        return Observation(
            coverage=(_coverage(context, gathered),),
            findings=tuple(findings),
            undecided=tuple(undecided),
            measurements=code_report.measurements(gathered, judged, code, severity=severity, confidence=confidence),
            warnings=tuple(warnings),
            tools=tools,
        )


CHECK = Code()


def _stage(units: Sequence[Unit], workdir: Path) -> list[Path]:
    """The sources as files under names of our own."""
    folder = workdir / "sources"
    folder.mkdir(parents=True)
    staged = []
    for number, unit in enumerate(units):
        staged.append(folder / f"{number:06}.py")
        staged[-1].write_bytes(unit.source)
    return staged


def _parse(context: CheckContext[CodeLimits], gathered: Gathered, staged: Sequence[Path]) -> Judged:
    if not staged and not gathered.templates:
        return Judged(units=[], templates=[])
    request = {
        "units": [
            {"path": str(path), "certain": unit.certain} for path, unit in zip(staged, gathered.units, strict=True)
        ],
        "templates": [template.text for template in gathered.templates],
        "template_time_limit_s": context.limits.template_time_limit_s,
        "template_memory_limit_bytes": context.limits.template_memory_limit_mib << 20,
    }
    with context.progress.task(
        "read code and templates", total=len(staged) + len(gathered.templates), unit="steps"
    ) as task:
        answer = worker.call(
            context.resources.sandbox,
            "scan.code_worker",
            request,
            readable=[context.workdir / "sources"],
            time_limit_s=context.limits.time_limit_s,
            memory_limit_bytes=WORKER_MEMORY_BYTES,
            task=task,
        )
    if len(answer["units"]) != len(staged) or len(answer["templates"]) != len(gathered.templates):
        raise CannotDecideError("the child that reads code answered for another number of files")
    return Judged(units=answer["units"], templates=answer["templates"])


def _coverage(context: CheckContext[CodeLimits], gathered: Gathered) -> Coverage:
    files = context.tree.files
    problems = [item for item in context.tree.problems if item.kind != "case-clash"]
    return Coverage(
        unit="files",
        seen=len(files),
        total=len(files) + len(problems),
        excluded=(*gathered.unread, *[f"{item.path}: {item.detail}" for item in problems]),
    )
