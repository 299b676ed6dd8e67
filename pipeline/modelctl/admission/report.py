"""The report: evidence of every check, bound to the bytes, the policy, the tools, the machine and the time, and the
verdict.

`to_json` and `from_json` are the stable format `admission.json`: deterministic key order, `schema_version`ed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from modelctl.checks.base import Coverage, Finding, Measurement, Undecided
from modelctl.errors import InputError

SCHEMA_VERSION = "1"

Outcome = Literal["passed", "failed", "error", "skipped"]
Verdict = Literal["admitted", "refused", "undecided"]
EXIT_CODES: Mapping[Verdict, int] = {"admitted": 0, "refused": 1, "undecided": 3}


@dataclass(frozen=True, kw_only=True)
class RawEvidence:
    """A file of raw evidence beside the report."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class WaivedFinding:
    """A finding that does not refuse, and on whose word."""

    finding: Finding
    waiver: str
    """The waiver's file in the registry repository."""
    reason: str
    owner: str
    approver: str
    expires: str
    """The last day on which the waiver holds, ISO 8601."""


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """Everything about one check."""

    id: str
    outcome: Outcome
    required: bool
    coverage: tuple[Coverage, ...]
    findings: tuple[Finding, ...]
    undecided: tuple[Undecided, ...]
    skipped_because: str | None
    measurements: tuple[Measurement, ...]
    warnings: tuple[str, ...]
    tools: Mapping[str, str]
    evidence: tuple[RawEvidence, ...]
    started_at: str
    """UTC, ISO 8601."""
    duration_s: float
    waived: tuple[WaivedFinding, ...] = ()
    """Findings that a waiver lets stand."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """The policy's section that the check was run under, whole."""


@dataclass(frozen=True, kw_only=True)
class LicenseReport:
    """Under which licence the model says to be, in lower case."""

    names: tuple[str, ...]
    """Of the model card's front matter; empty when it names none."""
    declared: str | None = None
    """What the release file says."""
    problem: str | None = None
    """Why the card could not be read."""


@dataclass(frozen=True, kw_only=True)
class ModelReport:
    """Which bytes were judged. The digests are tree digests; the served one differs when we quantised."""

    release: str | None
    """`name@version` when a release file was judged."""
    release_sha256: str | None
    """sha256 of the release file's own bytes, in hex: what was asked for is what may be published."""
    source: str
    source_digest: str
    served_digest: str | None
    """None when the served tree could not be made."""
    source_bytes: int
    served_bytes: int | None
    source_kind: str | None = None
    """`hub`, `folder`, `s3` or `dvc`."""
    license: LicenseReport | None = None


@dataclass(frozen=True, kw_only=True)
class PolicyReport:
    """Under which policy."""

    name: str
    digest: str
    notice: str | None
    """What every report under this policy must say (a demonstration policy's weakness)."""
    place: str | None = None
    """The policy's file, and the commit that it was read from where one was named."""
    notes: tuple[str, ...] = ()
    """What a reader must know of how it was chosen: a pull request that changes it is judged by the old one."""


@dataclass(frozen=True, kw_only=True)
class MachineReport:
    """Where the checks ran."""

    hostname: str
    system: str
    cpus: int
    memory_bytes: int
    gpus: tuple[str, ...]
    isolation: Literal["bubblewrap", "none"]


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """One runner's part of a merged report."""

    checks: tuple[str, ...]
    machine: MachineReport
    created_at: str
    report_sha256: str
    """sha256 of the runner's own report.json, in hex."""
    signed_by: str | None
    """The fingerprint of the key that signed it."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """One admission."""

    schema_version: Literal["1"]
    modelctl_version: str
    verdict: Verdict
    reasons: tuple[str, ...]
    """Why the verdict is what it is, one sentence each; empty for a plain admission."""
    partial: bool
    """Only some checks were asked for: it decides nothing and can't be published."""
    model: ModelReport
    policy: PolicyReport
    machine: MachineReport
    """Of a merged report: the runner whose isolation is weakest; `runs` has them all."""
    checks: tuple[CheckReport, ...]
    created_at: str
    duration_s: float
    runs: tuple[RunReport, ...] = ()
    """The runners whose evidence `modelctl gate` merged; empty for one admission on one machine."""

    @property
    def exit_code(self) -> int:
        """0 admitted, 1 refused, 3 undecided."""
        return EXIT_CODES[self.verdict]

    def to_json(self) -> str:
        """Deterministic JSON with a final newline."""
        return json.dumps(asdict(self), indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, *, origin: str) -> Report:
        """Parse and validate. Raises `InputError` that names `origin`."""
        try:
            return _ADAPTER.validate_json(text, strict=False)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "(top)"
            raise InputError(
                f"{origin}: not a report: '{where}': {first['msg']}",
                remedy="write one with modelctl admit … --json FILE",
            ) from error


_ADAPTER: TypeAdapter[Report] = TypeAdapter(Report)


def as_plain(value: Any) -> Any:
    """A dataclass of a report as plain JSON values."""
    return json.loads(json.dumps(asdict(value)))
