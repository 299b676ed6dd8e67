"""A check's context around an engine, with evidence kept in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from modelctl.checks.base import Check, CheckContext, CheckLimits, Observation
from modelctl.errors import ModelctlError
from modelctl.isolation import Sandbox
from modelctl.model.release import Serving
from modelctl.model.sources import Snapshot
from modelctl.model.tree import scan_tree
from modelctl.progress import SILENT, Progress
from modelctl.scan.clamd import Clamd
from modelctl.serving.endpoint import Endpoint

LimitsT = TypeVar("LimitsT", bound=CheckLimits)


class KeptEvidence:
    """Evidence by name."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def keep(self, name: str, content: bytes | Path) -> None:
        self.files[name] = content.read_bytes() if isinstance(content, Path) else content


class EngineOnly:
    """Resources that hold one engine, or the reason why there is none."""

    def __init__(self, engine: Endpoint | ModelctlError) -> None:
        self.sandbox = Sandbox("none")
        self._engine = engine

    def clamd(self) -> Clamd:
        raise AssertionError("no stress check needs a clamd")

    def engine(self) -> Endpoint:
        if isinstance(self._engine, ModelctlError):
            raise self._engine
        return self._engine


def observe(
    check: Check[LimitsT],
    limits: LimitsT,
    engine: Endpoint | ModelctlError,
    *,
    model: Path,
    serving: Serving,
    base: Path | None = None,
    evidence: KeptEvidence | None = None,
    cache: Path | None = None,
    progress: Progress = SILENT,
) -> Observation:
    """Run a stress check on a model folder and an engine; `base` is what an adapter is served on, and `cache` is needed
    by a sweep."""
    tree = scan_tree(model)
    context = CheckContext(
        limits=limits,
        role="served",
        tree=tree,
        source=_snapshot(model),
        served=tree,
        quantization=None,
        baseline=None,
        base=_snapshot(base) if base is not None else None,
        serving=serving,
        resources=EngineOnly(engine),
        evidence=evidence or KeptEvidence(),
        progress=progress,
        workdir=model,
        cache=cache or model,
        root=model,
    )
    return check.run(context)


def _snapshot(folder: Path) -> Snapshot:
    return Snapshot(kind="folder", description=f"folder {folder}", tree=scan_tree(folder), upstream=None)


def rules(observation: Observation) -> list[str]:
    """The findings' rules."""
    return [finding.rule for finding in observation.findings]


def reasons(observation: Observation) -> str:
    """All that could not be decided, in one text."""
    return "\n".join(item.reason for item in observation.undecided)


def measured(observation: Observation, name: str) -> object:
    """The value of the first measurement of that name."""
    return next(item.value for item in observation.measurements if item.name == name)
