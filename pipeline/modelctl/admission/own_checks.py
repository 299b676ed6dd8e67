"""A team's own checks: installed packages offer them as entry points of the group `modelctl.checks`.

They are found by their packages' metadata, without being imported; only those that the policy names are run, in an
isolated child with the model's folder read-only and the section's limits, like everything else that loads a model. What
they say goes through the same runner and the same verdict as our own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import unquote, urlsplit

from pydantic import TypeAdapter, ValidationError

from modelctl import worker
from modelctl.admission.policy import OwnCheck
from modelctl.checks.base import Check, CheckContext, Observation
from modelctl.errors import CannotDecideError

GROUP = "modelctl.checks"
WORKER = "admission.own_checks_worker"
_OBSERVATION: TypeAdapter[Observation] = TypeAdapter(Observation)


@dataclass(frozen=True, kw_only=True)
class OwnRequest:
    """What a team's check is called with; it returns an `Observation` (`modelctl.checks.base`)."""

    model: Path
    """The tree's folder, read-only."""
    role: Literal["source", "served"]
    files: tuple[Mapping[str, Any], ...]
    """Every file: `path`, `size_bytes`, `sha256`."""
    options: Mapping[str, Any]
    """`options` of the policy's section."""
    workdir: Path
    """An empty folder of its own, removed afterwards."""


def installed() -> Mapping[str, EntryPoint]:
    """The checks that installed packages offer, by name; of two with one name, neither is imported and one is here."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def own_check(check_id: str) -> Check[OwnCheck]:
    """The check of a name that the policy has under `own_checks`, whether it is installed or not."""

    class Own:
        id: ClassVar[str] = check_id
        decides: ClassVar[str] = "what the team's own check decides"
        scope: ClassVar[Literal["tree", "release"]] = "tree"
        headline: ClassVar[tuple[str, ...]] = ()

        def run(self, context: CheckContext[OwnCheck]) -> Observation:
            return _run(check_id, context)

    return Own()


def _run(check_id: str, context: CheckContext[OwnCheck]) -> Observation:
    entry = _entry(check_id)
    tree, limits = context.tree, context.limits
    request = {
        "name": entry.name,
        "value": entry.value,
        "model": str(tree.root),
        "role": context.role,
        "files": [{"path": f.path, "size_bytes": f.size_bytes, "sha256": f.sha256} for f in tree.files],
        "options": limits.options,
        "workdir": str(context.workdir),
    }
    with context.progress.task(f"own check {check_id}", total=None, unit="steps") as task:
        answer = worker.call(
            context.resources.sandbox,
            WORKER,
            request,
            readable=(tree.root, *_code_of(entry)),
            writable=(context.workdir,),
            time_limit_s=limits.time_limit_s,
            memory_limit_bytes=limits.memory_limit_mib << 20,
            task=task,
        )
    seen = _observation(check_id, answer)
    package = entry.dist
    version = {f"{package.name} ({entry.value})": package.version} if package is not None else {}
    return seen.plus(Observation(coverage=(), tools=version))


def _entry(check_id: str) -> EntryPoint:
    found = [entry for entry in entry_points(group=GROUP) if entry.name == check_id]
    if not found:
        known = ", ".join(sorted(installed())) or "none"
        raise CannotDecideError(
            f"the policy names the own check '{check_id}', and no installed package offers it (installed: {known})",
            remedy=f"install the package with the entry point '{check_id}' in the group {GROUP}, beside modelctl",
        )
    if len({entry.value for entry in found}) > 1:
        places = ", ".join(sorted(f"{entry.dist.name if entry.dist else '?'} ({entry.value})" for entry in found))
        raise CannotDecideError(
            f"several packages offer the own check '{check_id}': {places}", remedy="uninstall all but one"
        )
    return found[0]


def _code_of(entry: EntryPoint) -> tuple[Path, ...]:
    """The folders that the child imports from: those of installed packages, and an editable one's own."""
    folders = [Path(item) for item in sys.path if Path(item).name in ("site-packages", "dist-packages")]
    direct = entry.dist.read_text("direct_url.json") if entry.dist is not None else None
    if direct is not None:
        url = urlsplit(str(json.loads(direct).get("url", "")))
        if url.scheme == "file":
            folders.append(Path(unquote(url.path)))
    return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))


def _observation(check_id: str, answer: Any) -> Observation:
    try:
        seen = _OBSERVATION.validate_python(answer)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CannotDecideError(
            f"the own check '{check_id}' returned no observation: '{where}': {first['msg']}",
            remedy="return modelctl.checks.base.Observation",
        ) from error
    stray = [finding.rule for finding in seen.findings if not finding.rule.startswith(f"{check_id}.")]
    if stray:
        raise CannotDecideError(
            f"the own check '{check_id}' found '{stray[0]}'", remedy=f"name its rules {check_id}.<rule>"
        )
    return seen
