"""What the code check says of what was gathered, parsed and scanned: findings, warnings, evidence and figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from modelctl.checks.base import Finding, Measurement
from modelctl.scan.bandit_run import LEVELS, Bandit, Level
from modelctl.scan.gathered import Gathered, Unit

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


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What the child said of units and templates, in the order of `Gathered`."""

    units: list[dict[str, Any]]
    templates: list[list[str]]


def of_problems(gathered: Gathered, *, allow_own_code: bool) -> Iterator[Finding]:
    """What was seen while gathering."""
    for problem in gathered.problems:
        if not (problem.own and allow_own_code):
            yield _finding(problem.rule, problem.path, problem.detail)


def of_templates(gathered: Gathered, judged: Judged) -> Iterator[Finding]:
    """What the child said of templates."""
    for template, problems in zip(gathered.templates, judged.templates, strict=True):
        for problem in problems:
            yield _finding("template", template.path, f"{template.label}: {problem}")


def of_units(units: Sequence[Unit], judged: Judged) -> Iterator[Finding]:
    """What the child said of Python, but for network use."""
    for unit, said in zip(units, judged.units, strict=True):
        if said["error"] is not None:
            yield _finding("unreadable-python", unit.path, f"{unit.label}: does not parse as Python: {said['error']}")
        for mention in said["mentions"]:
            if mention["rule"] != "network":
                yield _finding(mention["rule"], unit.path, f"{unit.label}:{mention['line']}: {mention['text']}")


def of_bandit(
    bandit: Bandit, units: Sequence[Unit], known: Sequence[Finding], *, severity: Level, confidence: Level
) -> Iterator[Finding]:
    """bandit's findings over the limits, less those at a place where our own rules found something already."""
    told = [finding.message for finding in known]
    for number, reason in bandit.errors:
        if not any(message.startswith(f"{units[number].label}: does not parse") for message in told):
            yield _finding("unreadable-python", units[number].path, f"{units[number].label}: bandit: {reason[:200]}")
    for issue in bandit.issues:
        severe = LEVELS.index(issue.severity) >= LEVELS.index(severity)
        sure = LEVELS.index(issue.confidence) >= LEVELS.index(confidence)
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


def evidence(bandit: Bandit, units: Sequence[Unit]) -> bytes:
    """Everything that bandit found, as JSON; `units` are those it was given."""
    rows = [
        {"where": units[issue.unit].label, "line": issue.line, "test": issue.test, "text": issue.text}
        | {"severity": issue.severity, "confidence": issue.confidence}
        for issue in bandit.issues
    ]
    return (json.dumps(rows, indent=1, sort_keys=True) + "\n").encode()


def measurements(
    gathered: Gathered, judged: Judged, python: Sequence[Unit], *, severity: Level, confidence: Level
) -> tuple[Measurement, ...]:
    """How much was looked at; `python` are the units that are code."""
    files = {unit.path for unit in python}
    lines = sum(unit.source.count(b"\n") + 1 for unit in python)
    how = {"severity": severity, "confidence": confidence}
    return (
        Measurement(name="python-files", value=len(files), parameters=how),
        Measurement(name="templates", value=len(gathered.templates)),
        Measurement(name="python-lines", value=lines, parameters=how),
        Measurement(name="texts-tried-as-python", value=len(judged.units)),
    )


def warnings(gathered: Gathered, judged: Judged) -> Iterator[str]:
    """What was seen while gathering, and network use."""
    yield from gathered.warnings
    for unit, said in zip(gathered.units, judged.units, strict=True):
        for mention in said["mentions"]:
            if mention["rule"] == "network":
                yield f"{unit.label}:{mention['line']}: reaches for the network ({mention['text']})"
