"""Evidence folders as runners leave them, for tests of the gate."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from modelctl import __version__
from modelctl.admission.policy import LoadedPolicy
from modelctl.admission.report import CheckReport, RawEvidence, Report
from modelctl.checks.base import Measurement, Scalar
from tests.support.reports import a_check, a_report

CPU = ("integrity", "malware", "code", "tokenizer")
GPU = ("quantization", "long-context", "concurrency")
FIGURES: Mapping[str, tuple[str, Sequence[str]]] = {
    "code": ("python-files", ("severity", "confidence")),
    "quantization": ("accuracy-drop", ("questions", "confidence", "tasks", "seed", "fewshot", "dtype", "batch_size")),
    "long-context": ("longest-answered", ("prompts_per_length", "answer_tokens", "seed")),
    "concurrency": ("requests", ("streams", "duration_s", "prompt_tokens", "answer_tokens", "seed")),
}


def stamp(*, hours_ago: float = 1) -> str:
    made = datetime.now(UTC) - timedelta(hours=hours_ago)
    return made.isoformat(timespec="seconds").replace("+00:00", "Z")


def checked(check_id: str, loaded: LoadedPolicy) -> CheckReport:
    """A passed check, run exactly as hard as the policy asks."""
    limits = loaded.policy.limits(check_id).model_dump(mode="json", by_alias=True)
    name, parameters = FIGURES.get(check_id, ("bytes", ()))
    measured: dict[str, Scalar] = {
        key: ", ".join(sorted(limits[key])) if isinstance(limits[key], list) else limits[key] for key in parameters
    }
    figure = Measurement(name=name, value=1, parameters=measured)
    return replace(a_check(check_id), limits=limits, measurements=(figure,), started_at=stamp())


def runner_report(checks: Sequence[CheckReport], loaded: LoadedPolicy, *, release_sha256: str | None) -> Report:
    """What one runner says of `tiny@1.0.0`."""
    report = a_report(
        *checks, partial=True, release="tiny@1.0.0", release_sha256=release_sha256, policy_digest=loaded.digest
    )
    return replace(report, created_at=stamp(), modelctl_version=__version__)


def leave(folder: Path, report: Report) -> Path:
    """Write a runner's folder: the report, and a file of raw evidence for each check that it then lists."""
    folder.mkdir(parents=True, exist_ok=True)
    checks = []
    for check in report.checks:
        content = f"rows of {check.id}\n".encode()
        (folder / check.id).mkdir(exist_ok=True)
        (folder / check.id / "rows.jsonl").write_bytes(content)
        item = RawEvidence(
            path=f"{check.id}/rows.jsonl", size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
        )
        checks.append(replace(check, evidence=(item,)))
    (folder / "report.json").write_text(replace(report, checks=tuple(checks)).to_json(), encoding="utf-8")
    return folder
