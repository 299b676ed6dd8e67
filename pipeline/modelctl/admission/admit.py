"""One admission from end to end: the subject, the rules, the checks' phases, the report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from modelctl import __version__
from modelctl.admission.closing import close
from modelctl.admission.machine import describe_machine
from modelctl.admission.phases import Phases
from modelctl.admission.policy import LoadedPolicy
from modelctl.admission.report import LicenseReport, ModelReport, Report
from modelctl.admission.resources import RunResources
from modelctl.admission.rulebook import Rulebook, describe, load_rulebook
from modelctl.admission.runner import now
from modelctl.admission.scratch import scratch_folder
from modelctl.admission.subject import Subject, resolve_subject
from modelctl.admission.waivers import Waivers
from modelctl.checks import CHECK_IDS
from modelctl.errors import InputError
from modelctl.model.card import licenses_of
from modelctl.model.tree import Tree, hash_file
from modelctl.progress import Progress
from modelctl.settings import Workspace


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to judge, by which policy. `checks` empty: all seven."""

    repo: str
    workspace: Workspace
    policy: str | None = None
    policy_ref: str | None = None
    """A commit that policy and waivers are read from instead of the working tree."""
    checks: tuple[str, ...] = ()
    evidence_dir: Path | None = None
    upstream: str | None = None
    """`ORG/NAME@COMMIT` that a model named directly is compared with."""


@dataclass(frozen=True, kw_only=True)
class Admission:
    """A finished admission: the report, and the bytes it is about."""

    report: Report
    subject: Subject
    served: Tree | None
    evidence_dir: Path


def admit(request: Request, progress: Progress) -> Admission:
    """Run the checks and decide. Raises `ModelctlError` only for what keeps the run from starting."""
    began = time.monotonic()
    workspace = request.workspace
    subject = resolve_subject(request.repo, workspace, progress, upstream=request.upstream)
    named = subject.release.spec.policy if subject.release else None
    rules = load_rulebook(
        workspace,
        option=request.policy,
        of_release=named,
        ref=request.policy_ref,
        release=subject.release.id if subject.release else None,
    )
    for note in rules.notes:
        progress.note(note)
    return judge(subject, rules.policy, request, progress, began=began, rules=rules)


def judge(
    subject: Subject,
    policy: LoadedPolicy,
    request: Request,
    progress: Progress,
    *,
    began: float,
    rules: Rulebook | None = None,
) -> Admission:
    """The same of a model that is at hand, by a policy that is read; waivers are those of `rules`. `began` is the
    monotonic time of the start."""
    workspace = request.workspace
    waivers = rules.waivers if rules else Waivers()
    evidence_dir = (request.evidence_dir or _evidence_dir(workspace, subject)).resolve()
    state = workspace.make_state()
    _make_folder(evidence_dir)
    with (
        scratch_folder(state) as workdir,
        RunResources(settings=workspace.settings, state=state, evidence=evidence_dir, progress=progress) as resources,
    ):
        run = Phases(
            chosen=request.checks,
            subject=subject,
            policy=policy,
            waivers=waivers,
            workspace=workspace,
            resources=resources,
            workdir=workdir,
            evidence_dir=evidence_dir,
            progress=progress,
        )
        run.execute()
        checks = tuple(item.report(limits=policy.policy.limits(item.check.id)) for item in run.checks.values())
        sandbox = resources.sandbox
    source = subject.source
    draft = Report(
        schema_version="1",
        modelctl_version=__version__,
        verdict="undecided",
        reasons=(),
        partial=bool(request.checks) and set(request.checks) != {*CHECK_IDS, *policy.policy.spec.own_checks},
        model=ModelReport(
            release=subject.release.id if subject.release else None,
            release_sha256=hash_file(subject.release_path) if subject.release_path else None,
            source=source.description,
            source_digest=source.tree.digest,
            served_digest=run.served.digest if run.served else None,
            source_bytes=source.tree.size_bytes,
            served_bytes=run.served.size_bytes if run.served else None,
            source_kind=source.kind,
            license=_license(subject),
        ),
        policy=rules.described() if rules else describe(policy, workspace.root),
        machine=describe_machine(sandbox.kind),
        checks=checks,
        created_at=now(),
        duration_s=round(time.monotonic() - began, 1),
    )
    report = close(draft, policy, waivers, sandbox)
    return Admission(report=report, subject=subject, served=run.served, evidence_dir=evidence_dir)


def _license(subject: Subject) -> LicenseReport:
    declared = subject.release.spec.license if subject.release else None
    try:
        return LicenseReport(names=licenses_of(subject.source.tree), declared=declared)
    except (InputError, OSError) as error:
        return LicenseReport(names=(), declared=declared, problem=str(error))


def _evidence_dir(workspace: Workspace, subject: Subject) -> Path:
    if subject.release is not None:
        metadata = subject.release.metadata
        return workspace.state / "evidence" / metadata.name / metadata.version
    return workspace.state / "evidence" / subject.source.tree.digest.removeprefix("sha256:")[:16]


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(f"{folder}: not a folder", remedy="name another --evidence-dir") from error
