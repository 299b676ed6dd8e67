"""Reports for tests of what comes after an admission."""

from __future__ import annotations

from modelctl.admission.report import (
    CheckReport,
    MachineReport,
    ModelReport,
    Outcome,
    PolicyReport,
    Report,
    Verdict,
)
from modelctl.checks.base import Coverage, Finding, Measurement, Undecided

DIGEST = "sha256:" + "ab" * 32


def a_check(check_id: str = "integrity", outcome: Outcome = "passed", *, required: bool = True) -> CheckReport:
    """A check's report, with what its outcome asks for."""
    finding = Finding(
        rule=f"{check_id}.hash", message="got a, want b", remedy="fetch it again", path="model.safetensors"
    )
    return CheckReport(
        id=check_id,
        outcome=outcome,
        required=required,
        coverage=(Coverage(unit="files", seen=3, total=3),),
        findings=(finding,) if outcome == "failed" else (),
        undecided=(Undecided(reason="clamd is gone", remedy="start it"),) if outcome == "error" else (),
        skipped_because="nothing to compare" if outcome == "skipped" else None,
        measurements=(Measurement(name="bytes", value=1234, unit="B", parameters={"tree": "source"}),),
        warnings=(),
        tools={"tool": "1.0"},
        evidence=(),
        started_at="2026-01-02T03:04:05Z",
        duration_s=1.5,
    )


def a_report(
    *checks: CheckReport,
    verdict: Verdict = "admitted",
    partial: bool = False,
    release: str | None = "tiny@1.0.0",
    release_sha256: str | None = None,
    served_digest: str | None = DIGEST,
    policy_digest: str = DIGEST,
    notice: str | None = None,
) -> Report:
    """A whole report."""
    return Report(
        schema_version="1",
        modelctl_version="0.1.0",
        verdict=verdict,
        reasons=() if verdict == "admitted" else ("integrity: 1 finding",),
        partial=partial,
        model=ModelReport(
            release=release,
            release_sha256=release_sha256,
            source="folder ./tiny",
            source_digest=DIGEST,
            served_digest=served_digest,
            source_bytes=1234,
            served_bytes=1234 if served_digest else None,
        ),
        policy=PolicyReport(name="demo", digest=policy_digest, notice=notice),
        machine=MachineReport(
            hostname="box", system="Linux", cpus=2, memory_bytes=1 << 30, gpus=(), isolation="bubblewrap"
        ),
        checks=checks or (a_check(),),
        created_at="2026-01-02T03:04:06Z",
        duration_s=2.5,
    )
