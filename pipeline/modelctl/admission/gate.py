"""`modelctl gate`: one decision from the evidence of several runners.

Evidence counts when it is of the release that is proposed, of the same bytes, made by this program under the policy
that holds, at least as strictly as it asks, lately, whole, and signed where the policy wants that. Anything else is
refused, with every reason. What then follows is decided here, as `modelctl admit` decides on one machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from modelctl import __version__
from modelctl.admission.closing import close
from modelctl.admission.evidence_signature import REPORT_NAME
from modelctl.admission.merging import Evidence, merged_checks, merged_model, read_evidence, together, utc_now
from modelctl.admission.report import Report, RunReport
from modelctl.admission.rulebook import Rulebook, load_rulebook
from modelctl.admission.runner import now
from modelctl.admission.signers import repository_signers
from modelctl.admission.subject import find_release
from modelctl.errors import InputError
from modelctl.files import write_whole
from modelctl.isolation import Sandbox
from modelctl.model.release import Release, load_release
from modelctl.model.tree import hash_file
from modelctl.settings import Workspace


@dataclass(frozen=True, kw_only=True)
class GateRequest:
    """Which folders to merge, of which release, by which rules."""

    folders: tuple[Path, ...]
    workspace: Workspace
    release: str | None = None
    """`name@version` or a release file; None: a model that was judged without one."""
    policy: str | None = None
    policy_ref: str | None = None


@dataclass(frozen=True, kw_only=True)
class Gated:
    """The merged report, and the folders that it is of."""

    report: Report
    evidence: tuple[Evidence, ...]


def gate(request: GateRequest) -> Gated:
    """Merge and decide. Raises `InputError` for a folder without a report, a release or a policy that is not there."""
    if not request.folders:
        raise InputError("no evidence folder is named", remedy="modelctl gate DIR… (see modelctl gate --help)")
    release, path = _release(request)
    named = release.spec.policy if release else None
    book = load_rulebook(
        request.workspace,
        option=request.policy,
        of_release=named,
        ref=request.policy_ref,
        release=release.id if release else None,
    )
    policy = book.policy.policy
    signers = repository_signers(book.files) or ()
    at = utc_now()
    found = tuple(read_evidence(folder, book.policy, signers, at) for folder in request.folders)
    reasons = [
        *(f"{item.folder} {problem}" for item in found for problem in item.problems),
        *_of_release(found, release, path),
        *together(found, policy),
    ]
    report = close(_draft(found, book, partial=bool(reasons)), book.policy, book.waivers, Sandbox())
    if reasons:
        reasons += report.reasons
        report = replace(report, verdict="refused", reasons=tuple(reasons))
    return Gated(report=report, evidence=found)


def keep(gated: Gated, folder: Path) -> Path:
    """Write the merged report and all raw evidence into a folder; returns the report's path. Raises `InputError` for a
    folder that was merged."""
    if any(item.folder.resolve() == folder.resolve() for item in gated.evidence):
        raise InputError(f"{folder}: a runner's own evidence", remedy="name a new folder for the merged one")
    folder.mkdir(parents=True, exist_ok=True)
    for item in gated.evidence:
        if item.problems:
            continue
        for raw in (raw for check in item.checks for raw in check.evidence):
            target = folder / raw.path
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(item.folder / raw.path, target)
    write_whole(folder / REPORT_NAME, gated.report.to_json())
    return folder / REPORT_NAME


def _release(request: GateRequest) -> tuple[Release | None, Path | None]:
    if request.release is None:
        return None, None
    path = find_release(request.release, request.workspace.root)
    if path is None:
        raise InputError(f"--release {request.release}: no release", remedy="name NAME@VERSION or a release file")
    return load_release(path), path


def _of_release(found: Sequence[Evidence], release: Release | None, path: Path | None) -> Iterator[str]:
    """Why the evidence is not of the release that is asked about."""
    asked = release.id if release else None
    sha256 = hash_file(path) if path else None
    for item in found:
        model = item.report.model
        if model.release != asked:
            yield f"{item.folder} is of {model.release or 'a model without a release'}, asked for: {asked or 'none'}"
        elif model.release_sha256 != sha256:
            yield f"{item.folder} is of another {path}: it was changed since"


def _draft(found: Sequence[Evidence], book: Rulebook, *, partial: bool) -> Report:
    weakest = next((item for item in found if item.report.machine.isolation == "none"), found[0])
    checks = merged_checks(found, book.policy.policy, book.waivers)
    return Report(
        schema_version="1",
        modelctl_version=__version__,
        verdict="undecided",
        reasons=(),
        partial=partial,
        model=merged_model(found),
        policy=book.described(),
        machine=weakest.report.machine,
        checks=checks,
        created_at=now(),
        duration_s=round(sum(item.report.duration_s for item in found), 1),
        runs=tuple(
            RunReport(
                checks=tuple(check.id for check in item.checks),
                machine=item.report.machine,
                created_at=item.report.created_at,
                report_sha256=item.sha256,
                signed_by=item.signed_by,
            )
            for item in found
        ),
    )
