"""One model against another, whatever they are: the check `quantization` alone, with its verdict, report and evidence.

Both are taken as they are: what a release would make of its source is the business of an admission.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from modelctl.admission.admit import Admission, Request, judge
from modelctl.admission.policy import LoadedPolicy, Policy, load_policy
from modelctl.admission.subject import Subject, resolve_subject
from modelctl.checks.quantization_verdict import ID
from modelctl.documents import validate
from modelctl.errors import InputError
from modelctl.model.sources import Snapshot
from modelctl.progress import Progress
from modelctl.settings import Workspace


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What to compare, by which policy; what is None is the policy's."""

    repo: str
    against: str
    workspace: Workspace
    policy: str | None = None
    tasks: tuple[str, ...] = ()
    questions: int | None = None
    evidence_dir: Path | None = None


def compare(comparison: Comparison, progress: Progress) -> Admission:
    """Answer the same questions with both and judge. Raises `ModelctlError` for what keeps the run from starting."""
    began = time.monotonic()
    workspace = comparison.workspace
    policy = changed(load_policy(comparison.policy or workspace.settings.policy, workspace.root), comparison)
    source, baseline = (_model(named, workspace, progress) for named in (comparison.repo, comparison.against))
    subject = Subject(source=source, baseline=baseline, release=None, release_path=None)
    request = Request(repo=comparison.repo, workspace=workspace, checks=(ID,), evidence_dir=comparison.evidence_dir)
    return judge(subject, policy, request, progress, began=began)


def changed(loaded: LoadedPolicy, comparison: Comparison) -> LoadedPolicy:
    """The policy with the comparison's own figures; its digest is another then. Raises `InputError` for figures that
    no policy may have."""
    document = loaded.policy.model_dump(mode="json", by_alias=True)
    figures = document["spec"]["checks"][ID]
    if comparison.tasks:
        figures["tasks"] = list(comparison.tasks)
    if comparison.questions is not None:
        figures["questions"] = comparison.questions
    return replace(loaded, policy=validate(document, Policy, origin=f"policy {loaded.name} with the options given"))


def _model(named: str, workspace: Workspace, progress: Progress) -> Snapshot:
    subject = resolve_subject(named, workspace, progress)
    if subject.release is not None and subject.release.spec.quantization is not None:
        raise InputError(
            f"{named}: a release that is still to be quantised",
            remedy=f"modelctl admit {named} --check {ID}: it quantises, then compares",
        )
    return subject.source
