"""What a check is given and what it gives back.

A check returns what it saw (`Observation`) and never its own outcome: the runner derives passed, failed, error or
skipped from it. Could-not-decide is an `Undecided` beside the findings, or a raised `CannotDecideError`; it is never
a pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Generic, Literal, Protocol, TypeVar

from pydantic import Field

from modelctl.documents import Document

if TYPE_CHECKING:  # reports and policies are read without any of these
    from modelctl.accuracy.quantize import Quantized
    from modelctl.isolation import Sandbox
    from modelctl.model.release import Quantization, Serving
    from modelctl.model.sources import Snapshot
    from modelctl.model.tree import Tree
    from modelctl.progress import Progress
    from modelctl.scan.clamd import Clamd
    from modelctl.serving.endpoint import Endpoint

Scalar = str | int | float | bool | None
Role = Literal["source", "served"]


class CheckLimits(Document):
    """A policy's section for one check; each check derives its own."""

    required: bool = True
    """A release is admitted only when every required check passed."""
    allow_skip: bool = False
    """Whether "does not apply" is enough for a required check."""
    time_limit_s: Annotated[int, Field(ge=1)] = 3600
    """Seconds after which the check ends without a decision."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One reason to refuse: what was got, what is wanted, where, and how to mend it."""

    rule: str
    """`<check>.<rule>`, stable: waivers, documentation and SARIF refer to it."""
    message: str
    remedy: str
    path: str | None = None
    tree: Role | None = None


@dataclass(frozen=True, kw_only=True)
class Undecided:
    """Something the check could not decide, and what would let it."""

    reason: str
    remedy: str | None = None


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A figure with every parameter that moves it. `unit` is "" for counts and ratios.

    Names are in kebab-case, as rules are.
    """

    name: str
    value: Scalar
    unit: str = ""
    parameters: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How much of what there was has been looked at. `seen` and `total` count in `unit`."""

    unit: str
    seen: int
    total: int
    excluded: tuple[str, ...] = ()
    """What was not looked at, and why, one sentence each."""
    tree: Role | None = None


@dataclass(frozen=True, kw_only=True)
class Observation:
    """All that one run of a check saw."""

    coverage: tuple[Coverage, ...]
    findings: tuple[Finding, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    warnings: tuple[str, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict)
    """Name and version of every tool the result rests on."""

    def of_tree(self, role: Role) -> Observation:
        """The same, with findings and coverage marked as being of one tree."""
        return replace(
            self,
            coverage=tuple(replace(item, tree=role) for item in self.coverage),
            findings=tuple(replace(item, tree=role) for item in self.findings),
            measurements=tuple(replace(m, parameters={**m.parameters, "tree": role}) for m in self.measurements),
        )

    def plus(self, other: Observation) -> Observation:
        """Both together; nothing of either is lost."""
        return Observation(
            coverage=self.coverage + other.coverage,
            findings=self.findings + other.findings,
            undecided=self.undecided + other.undecided,
            measurements=self.measurements + other.measurements,
            warnings=self.warnings + other.warnings,
            tools={**self.tools, **other.tools},
        )


class Evidence(Protocol):
    """Where a check leaves raw evidence (per-request rows, per-document results, engine logs)."""

    def keep(self, name: str, content: bytes | Path) -> None:
        """Keep bytes or a file under `<check>/<name>`; the report lists it with its digest."""


class Resources(Protocol):
    """Tools that are started when first asked for and ended by the runner."""

    @property
    def sandbox(self) -> Sandbox:
        """Starts isolated children."""

    def clamd(self) -> Clamd:
        """A reachable clamd. Raises `CannotDecideError`."""

    def engine(self) -> Endpoint:
        """An engine that serves the served tree. Raises `CannotDecideError`, or `EngineRefusedError` when it can't
        load it."""


LimitsT = TypeVar("LimitsT", bound=CheckLimits)


@dataclass(frozen=True, kw_only=True)
class CheckContext(Generic[LimitsT]):
    """Everything a check may use."""

    limits: LimitsT
    role: Role
    tree: Tree
    """The tree under examination; for a check of scope "release" the served one."""
    source: Snapshot
    served: Tree
    quantization: Quantization | None
    made: Quantized | None = None
    """How the served tree was quantised, when modelctl did it."""
    baseline: Snapshot | None
    base: Snapshot | None = None
    """What a LoRA adapter is served on; None for everything else."""
    serving: Serving
    resources: Resources
    evidence: Evidence
    progress: Progress
    workdir: Path
    """An empty scratch folder, removed afterwards."""
    cache: Path
    """A folder kept between runs; what is in it is keyed by the digest of its inputs."""
    root: Path
    """The registry repository: files that a policy names lie below it."""

    @property
    def model(self) -> Tree:
        """What an engine loads: the served tree, or the base of an adapter."""
        return self.served if self.base is None else self.base.tree


class Check(Protocol[LimitsT]):
    """One admission check. Modules in this folder hold one each, as `CHECK`."""

    id: ClassVar[str]
    """The word in the command line, the policy, the docs and the tests."""
    decides: ClassVar[str]
    """One sentence: what a pass means."""
    scope: ClassVar[Literal["tree", "release"]]
    """"tree": run on the source and on the served tree; "release": run once."""
    headline: ClassVar[tuple[str, ...]]
    """Names of the measurements that a table has room for: what the check decides by."""

    def run(self, context: CheckContext[LimitsT]) -> Observation:
        """Look, and say what was seen. Raises `CannotDecideError`, `DoesNotApplyError`."""
