"""Code: no Python, hook, notebook or template in the repository does what a model has no need of.

Python is found by name and by content and read in an isolated child, with rules of our own and with bandit hardened
against the repository's own wishes. `auto_map` and the like are refused whatever they point at, unless the policy
lets the repository's own code in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from modelctl import worker
from modelctl.checks.base import CheckContext, CheckLimits, Coverage, Finding, Measurement, Observation, Undecided
from modelctl.errors import CannotDecideError
from modelctl.scan.bandit_run import LEVELS, Bandit, Level, run_bandit
from modelctl.scan.code_files import gather
from modelctl.scan.gathered import Gathered, Unit

WORKER_MEMORY_BYTES = 4 << 30
ALWAYS_REFUSED = frozenset({"B102", "B307", "B602", "B604", "B605", "B606", "B609"})
"""bandit's ids for exec, eval and shells: refused at any severity and confidence."""
WARNED = frozenset({"B113", "B310", "B615"})
"""bandit's ids for requests and downloads: network use, which is a warning whoever finds it."""

_REMEDIES = {
    "auto-map": "use an architecture that the engine knows and remove auto_map, or have the code reviewed "
    "and set code.allow_own_code in the policy",
    "custom-pipeline": "remove the entry, or use a class of the library itself",
    "hub-kernel": "remove the entry, or name an implementation of the library itself: eager, sdpa, flash_attention_2",
    "requirements": "name packages of the index by name and version",
    "trust-remote-code": "remove the entry: what may run is the policy's to say",
    "unreadable-json": "restore the file from its upstream, or remove it",
    "unreadable-python": "remove the file, or mend it so that it can be examined",
    "unreadable-gguf": "restore the file from its upstream, or remove it",
    "template": "use the official chat template; it needs no attribute that begins with an underscore",
    "secret": "revoke the credential where it was issued, then remove it from the file and its history",
    "native-binary": "remove the file: a model needs no machine code",
    "compiled-python": "remove the file and publish its source, if it is needed at all",
    "yaml-object": "write plain values",
    "process": "remove the code: a model starts no programs",
    "dynamic-code": "call what is meant by its name, so that it can be read",
    "native-code": "remove the code: a model loads no machine code of its own",
    "introspection": "remove the code: a model has no need of the interpreter's insides",
}


class CodeLimits(CheckLimits):
    """The policy's section `code`."""

    severity: Level = "medium"
    """bandit's findings are refused from this severity on, when they also reach `confidence`."""
    confidence: Level = "medium"
    allow_own_code: bool = False
    """Accept `auto_map` and the like that point to a file of this repository; its Python is examined all the same."""
    template_time_limit_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    """Seconds for compiling one chat template and rendering a few short conversations with it."""
    template_memory_limit_mib: Annotated[int, Field(ge=16, le=65536)] = 512
    """Memory that the same may take beyond what the child has already."""


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
        findings = [*_of_problems(gathered, context.limits), *_of_templates(gathered, judged)]
        findings += _of_units(gathered.units, judged)
        warnings = list(_warnings(gathered, judged))
        tools: dict[str, str] = {}
        undecided: list[Undecided] = []
        if python:
            for number in set(range(len(staged))) - set(python):
                staged[number].unlink()  # texts of another name that are no code
            bandit = run_bandit(
                [staged[number] for number in python],
                sandbox=context.resources.sandbox,
                folder=staged[0].parent,
                time_limit_s=context.limits.time_limit_s,
            )
            tools["bandit"] = bandit.version
            context.evidence.keep(f"bandit-{context.role}.json", _evidence(bandit, gathered.units, python))
            findings += _of_bandit(bandit, [gathered.units[number] for number in python], context.limits, findings)
            warnings += [
                f"{gathered.units[python[issue.unit]].label}:{issue.line}: {issue.text} ({issue.test})"
                for issue in bandit.issues
                if issue.test in WARNED
            ]
            undecided += [
                Undecided(reason=f"{gathered.units[python[number]].label}: bandit did not look at it")
                for number in bandit.unseen
            ]
        return Observation(
            coverage=(_coverage(context, gathered),),
            findings=tuple(findings),
            undecided=tuple(undecided),
            measurements=_measurements(gathered, judged, python, context.limits),
            warnings=tuple(warnings),
            tools=tools,
        )


CHECK = Code()


@dataclass(frozen=True, kw_only=True)
class _Judged:
    """What the child said, in the order of what was given."""

    units: list[dict[str, Any]]
    templates: list[list[str]]


def _stage(units: Sequence[Unit], workdir: Path) -> list[Path]:
    """The sources as files under names of our own."""
    folder = workdir / "sources"
    folder.mkdir(parents=True)
    staged = []
    for number, unit in enumerate(units):
        staged.append(folder / f"{number:06}.py")
        staged[-1].write_bytes(unit.source)
    return staged


def _parse(context: CheckContext[CodeLimits], gathered: Gathered, staged: Sequence[Path]) -> _Judged:
    if not staged and not gathered.templates:
        return _Judged(units=[], templates=[])
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
    return _Judged(units=answer["units"], templates=answer["templates"])


def _of_problems(gathered: Gathered, limits: CodeLimits) -> Iterator[Finding]:
    for problem in gathered.problems:
        if not (problem.own and limits.allow_own_code):
            yield _finding(problem.rule, problem.path, problem.detail)


def _of_templates(gathered: Gathered, judged: _Judged) -> Iterator[Finding]:
    for template, problems in zip(gathered.templates, judged.templates, strict=True):
        for problem in problems:
            yield _finding("template", template.path, f"{template.label}: {problem}")


def _of_units(units: Sequence[Unit], judged: _Judged) -> Iterator[Finding]:
    for unit, said in zip(units, judged.units, strict=True):
        if said["error"] is not None:
            yield _finding("unreadable-python", unit.path, f"{unit.label}: does not parse as Python: {said['error']}")
        for mention in said["mentions"]:
            if mention["rule"] != "network":
                yield _finding(mention["rule"], unit.path, f"{unit.label}:{mention['line']}: {mention['text']}")


def _of_bandit(
    bandit: Bandit, units: Sequence[Unit], limits: CodeLimits, known: Sequence[Finding]
) -> Iterator[Finding]:
    """bandit's findings over the limits, less those at a place where our own rules found something already."""
    told = [finding.message for finding in known]
    for number, reason in bandit.errors:
        if not any(message.startswith(f"{units[number].label}: does not parse") for message in told):
            yield _finding("unreadable-python", units[number].path, f"{units[number].label}: bandit: {reason[:200]}")
    for issue in bandit.issues:
        severe = LEVELS.index(issue.severity) >= LEVELS.index(limits.severity)
        sure = LEVELS.index(issue.confidence) >= LEVELS.index(limits.confidence)
        place = f"{units[issue.unit].label}:{issue.line}: "
        if issue.test in WARNED or (not (severe and sure) and issue.test not in ALWAYS_REFUSED):
            continue
        if any(message.startswith(place) for message in told):
            continue
        yield Finding(
            rule=f"code.bandit-{issue.test.lower()}",
            path=units[issue.unit].path,
            message=f"{place}{issue.text} ({issue.test}, severity {issue.severity}, confidence {issue.confidence})",
            remedy="remove or mend the code; code.severity and code.confidence in the policy set the limit",
        )


def _finding(rule: str, path: str, message: str) -> Finding:
    return Finding(rule=f"code.{rule}", path=path, message=message, remedy=_REMEDIES[rule])


def _evidence(bandit: Bandit, units: Sequence[Unit], python: Sequence[int]) -> bytes:
    rows = [
        {"where": units[python[issue.unit]].label, "line": issue.line, "test": issue.test, "text": issue.text}
        | {"severity": issue.severity, "confidence": issue.confidence}
        for issue in bandit.issues
    ]
    return (json.dumps(rows, indent=1, sort_keys=True) + "\n").encode()


def _coverage(context: CheckContext[CodeLimits], gathered: Gathered) -> Coverage:
    files = context.tree.files
    problems = [item for item in context.tree.problems if item.kind != "case-clash"]
    return Coverage(
        unit="files",
        seen=len(files),
        total=len(files) + len(problems),
        excluded=(*gathered.unread, *[f"{item.path}: {item.detail}" for item in problems]),
    )


def _measurements(
    gathered: Gathered, judged: _Judged, python: Sequence[int], limits: CodeLimits
) -> tuple[Measurement, ...]:
    files = {gathered.units[number].path for number in python}
    lines = sum(gathered.units[number].source.count(b"\n") + 1 for number in python)
    how = {"severity": limits.severity, "confidence": limits.confidence}
    return (
        Measurement(name="python-files", value=len(files), parameters=how),
        Measurement(name="templates", value=len(gathered.templates)),
        Measurement(name="python-lines", value=lines, parameters=how),
        Measurement(name="texts-tried-as-python", value=len(judged.units)),
    )


def _warnings(gathered: Gathered, judged: _Judged) -> Iterator[str]:
    yield from gathered.warnings
    for unit, said in zip(gathered.units, judged.units, strict=True):
        for mention in said["mentions"]:
            if mention["rule"] == "network":
                yield f"{unit.label}:{mention['line']}: reaches for the network ({mention['text']})"
