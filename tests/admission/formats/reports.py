"""A report with everything in it, text of a hostile model included, and one with ten thousand findings."""

from __future__ import annotations

from dataclasses import replace

from modelctl.admission.report import RawEvidence, Report, WaivedFinding
from modelctl.checks.base import Finding, Measurement
from tests.support.reports import a_check, a_report

HOSTILE = "</details><script>alert(1)</script> | @everyone [x](javascript:y) ``` <!-- \x1b[31m\x00\n# big"


def full_report() -> Report:
    """A refused release."""
    path = f"{HOSTILE}.py"
    bad = Finding(
        rule="code.risky-call", message=f"{path}:12: {HOSTILE}", remedy="take it out", path=path, tree="source"
    )
    stands = Finding(rule="code.remote-code", message="m", remedy="r", path="config.json")
    waived = WaivedFinding(
        finding=stands, waiver="policies/waivers/one.yaml", reason=HOSTILE, owner="ann", approver="bob",
        expires="2027-01-31",
    )  # fmt: skip
    subject = Measurement(
        name="subject-change", value=-1, unit="documents",
        parameters={"subject": "law", "questions": 10, "baseline_correct": 7, "lost": 2, "gained": 1},
    )  # fmt: skip
    sweep = tuple(
        Measurement(
            name="sweep-throughput", value=90.0 * streams + turn, unit="tokens/s", parameters={"streams": streams}
        )
        for streams in (1, 2, 4)
        for turn in (0, 5)
    )
    lengths = tuple(
        Measurement(name="ttft-p50", value=length / 1e4, unit="s", parameters={"length": length})
        for length in (128, 512)
    )
    knee = Measurement(name="knee", value=2, unit="streams", parameters={"streams": 2})
    checks = (
        replace(a_check("long-context"), measurements=lengths),
        replace(a_check("integrity"), evidence=(RawEvidence(path="integrity/x", size_bytes=3, sha256="ab" * 32),)),
        replace(a_check("code", "failed"), findings=(bad, replace(bad, path=None)), waived=(waived,)),
        a_check("malware", "error"),
        replace(a_check("quantization"), measurements=(subject,), warnings=(HOSTILE,)),
        replace(a_check("concurrency", "skipped"), measurements=(*sweep, knee)),
        a_check("tokenizer", "failed", required=False),
    )
    report = a_report(*checks, verdict="refused", notice=HOSTILE)
    return replace(report, policy=replace(report.policy, notes=(HOSTILE,), place="policies/ours.yaml"))


def large_report(findings: int = 10_000) -> Report:
    """A release with very many findings."""
    many = tuple(
        Finding(rule=f"code.rule-{number % 40}", message=f"line {number}: {HOSTILE}", remedy="r", path=f"a/{number}.py")
        for number in range(findings)
    )
    return a_report(replace(a_check("code", "failed"), findings=many), a_check("malware", "error"), verdict="refused")
