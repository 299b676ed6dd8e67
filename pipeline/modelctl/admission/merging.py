"""The evidence folders of several runners: each read and verified by itself, then held together.

A folder is what `modelctl admit … --evidence-dir` leaves: `report.json`, the raw evidence it lists, and its signature.
Nothing that a runner concluded is taken over: outcomes follow anew from what its checks saw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

from modelctl import __version__
from modelctl.admission.closing import POLICY_ID
from modelctl.admission.evidence_signature import REPORT_NAME, verify_evidence
from modelctl.admission.policy import LoadedPolicy, Policy
from modelctl.admission.report import CheckReport, ModelReport, Report, WaivedFinding
from modelctl.admission.signers import AllowedSigner
from modelctl.admission.strictness import weaker
from modelctl.admission.verdict import outcome_of
from modelctl.admission.waivers import Waivers
from modelctl.checks import CHECK_IDS, RELEASE_CHECKS
from modelctl.checks.base import Finding, Observation
from modelctl.errors import CannotDecideError, InputError, ModelctlError
from modelctl.model.tree import hash_file

MAX_REPORT_BYTES = 256 << 20
CLOCK_SKEW = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One runner's folder; `problems` say why it does not count."""

    folder: Path
    report: Report
    sha256: str
    signed_by: str | None
    problems: tuple[str, ...]

    @property
    def checks(self) -> tuple[CheckReport, ...]:
        """The checks that the runner made; what it said of the policy as a whole is said anew."""
        return tuple(check for check in self.report.checks if check.id != POLICY_ID)


def read_evidence(folder: Path, loaded: LoadedPolicy, signers: Sequence[AllowedSigner], now: datetime) -> Evidence:
    """Read one folder and verify it by itself. Raises `InputError` when it holds no report that can be read."""
    path = folder / REPORT_NAME
    try:
        if path.stat().st_size > MAX_REPORT_BYTES:
            raise InputError(f"{path}: larger than {MAX_REPORT_BYTES >> 20} MiB")
        text = path.read_bytes().decode()
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}", remedy="name the folders that modelctl admit … --evidence-dir wrote"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}") from error
    report = Report.from_json(text, origin=str(path))
    problems = []
    signed_by = None
    try:
        signed_by = verify_evidence(folder, text, signers)
        if signed_by is None and loaded.policy.spec.evidence.signatures == "required":
            problems.append("is not signed, and the policy requires signatures (modelctl admit … --sign)")
    except CannotDecideError:  # nothing here can tell whose signature it is
        raise
    except ModelctlError as error:
        problems.append(error.message)
    problems += _alone(folder, report, loaded, now)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    return Evidence(folder=folder, report=report, sha256=sha256, signed_by=signed_by, problems=tuple(problems))


def _alone(folder: Path, report: Report, loaded: LoadedPolicy, now: datetime) -> Iterator[str]:
    if report.modelctl_version != __version__:
        yield f"was made by modelctl {report.modelctl_version}, this is {__version__}"
    policy = loaded.policy
    if report.policy.digest != loaded.digest:
        yield (
            f"was made under the policy '{report.policy.name}' ({report.policy.digest}), "
            f"and '{loaded.name}' ({loaded.digest}) holds"
        )
    if report.verdict == "admitted" and any(check.required and check.outcome == "failed" for check in report.checks):
        yield "contradicts itself: admitted, with a check that failed"
    yield from _age(report, policy, now)
    for check in report.checks:
        if check.id == POLICY_ID:
            continue
        try:
            limits = policy.limits(check.id)
        except KeyError:
            yield f"has the check '{check.id}', which the policy does not name"
            continue
        yield from weaker(check, limits)
        yield from _raw(folder, check)


def _age(report: Report, policy: Policy, now: datetime) -> Iterator[str]:
    limit = policy.spec.evidence.max_age_hours
    for what, text in [("the report", report.created_at), *((check.id, check.started_at) for check in report.checks)]:
        try:
            made = datetime.fromisoformat(text)
            age = now - made
        except (ValueError, TypeError):
            yield f"{what} names no time: {text!r}"
            continue
        if age > timedelta(hours=limit):
            hours = age.total_seconds() / 3600
            yield f"{what} is {hours:.0f} hours old, over the policy's {limit:g} (evidence.max_age_hours)"
        elif age < -CLOCK_SKEW:
            yield f"{what} is of {text}, which is yet to come"


def _raw(folder: Path, check: CheckReport) -> Iterator[str]:
    """The files beside the report are those that it lists."""
    for item in check.evidence:
        parts = PurePosixPath(item.path).parts
        if len(parts) != 2 or parts[0] != check.id or parts[1] in (".", ".."):
            yield f"{check.id} lists evidence outside of its folder: {item.path!r}"
            continue
        path = folder / item.path
        if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
            yield f"{item.path} is missing"
        elif path.stat().st_size != item.size_bytes or hash_file(path) != item.sha256:
            yield f"{item.path} is not the file that the report lists"


def together(found: Sequence[Evidence], policy: Policy) -> Iterator[str]:
    """Why folders do not belong together, or are not all that the policy asks for."""
    first = found[0].report.model
    for item in found[1:]:
        model = item.report.model
        for name in ("release", "release_sha256", "source_digest", "source_kind", "license"):
            ours, theirs = getattr(first, name), getattr(model, name)
            if ours != theirs:
                yield f"{found[0].folder} and {item.folder} are not of one {name}: {ours} and {theirs}"
    served = {
        item.report.model.served_digest: item.folder for item in found if item.report.model.served_digest is not None
    }
    if len(served) > 1:
        both = ", ".join(f"{digest} ({folder})" for digest, folder in served.items())
        yield f"the runners served different trees: {both}; quantise once (modelctl quantize) and propose the result"
    seen: dict[str, Path] = {}
    for item in found:
        for check in item.checks:
            if check.id in seen:
                yield f"{check.id} is in {seen[check.id]} and in {item.folder}: give one of them"
            seen.setdefault(check.id, item.folder)
    missing = [name for name in _wanted(policy) if policy.limits(name).required and name not in seen]
    if missing:
        yield f"no evidence of {', '.join(missing)}"


def merged_model(found: Sequence[Evidence]) -> ModelReport:
    """Which bytes were judged: of the first runner that has a served tree."""
    models = [item.report.model for item in found]
    return next((model for model in models if model.served_digest is not None), models[0])


def merged_checks(found: Sequence[Evidence], policy: Policy, waivers: Waivers) -> tuple[CheckReport, ...]:
    """All checks, each decided anew from what it saw, under the waivers that hold now."""
    model = merged_model(found)
    by_id = {check.id: check for item in reversed(found) for check in item.checks}
    return tuple(_anew(by_id[name], policy, waivers, model) for name in _wanted(policy) if name in by_id)


def _anew(check: CheckReport, policy: Policy, waivers: Waivers, model: ModelReport) -> CheckReport:
    standing: tuple[Finding, ...] = ()
    waived: tuple[WaivedFinding, ...] = ()
    served = model.served_digest or model.source_digest
    for finding in (*check.findings, *(item.finding for item in check.waived)):
        digest = served if check.id in RELEASE_CHECKS or finding.tree == "served" else model.source_digest
        stands, let = waivers.apply([finding], digest)
        standing, waived = standing + stands, waived + let
    seen = Observation(
        coverage=check.coverage, findings=standing, undecided=check.undecided, measurements=check.measurements
    )
    outcome = outcome_of(seen, skipped=check.skipped_because is not None)
    required = policy.limits(check.id).required
    return replace(check, outcome=outcome, required=required, findings=standing, waived=waived)


def _wanted(policy: Policy) -> tuple[str, ...]:
    return (*CHECK_IDS, *policy.spec.own_checks)


def utc_now() -> datetime:
    """The time that ages are told from."""
    return datetime.now(UTC)
