"""Waivers: `policies/waivers/<name>.yaml`, each a reviewed exception for one finding of one release's bytes.

A waiver names the finding's rule and path and the digest of the tree that the finding was made in, so nothing else
passes by it: no other file, no other bytes, no check as a whole, and never what a check could not decide. One that has
expired, or that matches nothing, is a finding itself: a list of exceptions must not outlive its reasons.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from modelctl.admission.policy import WaiverRules
from modelctl.admission.policy_files import POLICIES, RuleFiles
from modelctl.admission.report import WaivedFinding
from modelctl.checks.base import Finding
from modelctl.documents import Document, parse_yaml, validate
from modelctl.errors import InputError
from modelctl.model.release import NAME_PATTERN, VERSION_PATTERN, TreeDigest

FOLDER = f"{POLICIES}/waivers"
RULE_PATTERN = r"^[a-z0-9-]+\.[a-z0-9-]+$"
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class WaiverMetadata(Document):
    """A waiver's name."""

    name: str
    """The file's name without `.yaml`."""


class WaiverSpec(Document):
    """What is let through, of which bytes, why, on whose word and until when."""

    rule: Annotated[str, StringConstraints(pattern=RULE_PATTERN)]
    """The finding's rule, whole: `code.risky-call`; no pattern, and not a check's name."""
    path: str | None = None
    """The finding's file, exactly; left out for a finding that names none."""
    release: Annotated[str, StringConstraints(pattern=rf"{NAME_PATTERN[:-1]}@{VERSION_PATTERN[1:]}")] | None = None
    """The release that it is for, `NAME@VERSION`; left out: whatever has these bytes."""
    digest: TreeDigest
    """The tree digest of the bytes that the finding was made in: the report's source digest for a finding in the source
    tree, else its served digest."""
    reason: Words
    """Why the finding may stand."""
    owner: Words
    """Who answers for it."""
    approver: Words
    """Who agreed: another person than the owner."""
    expires: date
    """The last day on which it holds (UTC)."""

    @field_validator("expires", mode="before")
    @classmethod
    def _a_day(cls, value: object) -> object:
        if isinstance(value, datetime):
            raise ValueError("wanted a day (2027-01-31), without a time")
        return value

    @model_validator(mode="after")
    def _two_people(self) -> WaiverSpec:
        if self.owner.casefold() == self.approver.casefold():
            raise ValueError("owner and approver are the same; wanted two people")
        return self


class WaiverFile(Document):
    """A whole waiver file."""

    api_version: Annotated[Literal["modelctl.dev/v1"], Field(alias="apiVersion")]
    """The format's version."""
    kind: Literal["Waiver"]
    """What the file is."""
    metadata: WaiverMetadata
    """The waiver's name."""
    spec: WaiverSpec
    """The exception."""


@dataclass(frozen=True, kw_only=True)
class Waiver:
    """A waiver and its file, as errors and reports name it."""

    spec: WaiverSpec
    file: str
    """Its path in the registry repository."""
    place: str

    def fits(self, finding: Finding, digest: str, release: str | None) -> bool:
        """Whether it is for this finding, in the tree of this digest, of this release."""
        about = (self.spec.rule, self.spec.path, self.spec.digest) == (finding.rule, finding.path, digest)
        return about and self.spec.release in (None, release)

    def problem(self, rules: WaiverRules, today: date) -> str | None:
        """Why it lets nothing through, if so: expired, for too long, or of what the policy never waives."""
        if self.spec.expires < today:
            return f"expired on {self.spec.expires}"
        if self.spec.expires > today + timedelta(days=rules.max_days):
            return f"holds until {self.spec.expires}, over the policy's {rules.max_days} days (waivers.max_days)"
        pattern = next((item for item in rules.never if fnmatch.fnmatchcase(self.spec.rule, item)), None)
        return None if pattern is None else f"is for {self.spec.rule}, which the policy never waives ('{pattern}')"


def load_waivers(files: RuleFiles) -> tuple[Waiver, ...]:
    """All waivers, by file. Raises `InputError` for a file that is none, and for two for the same finding."""
    waivers: list[Waiver] = []
    for path in files.listing(FOLDER):
        if not path.endswith((".yaml", ".yml")):
            continue
        place = files.place(path)
        document = validate(parse_yaml(files.read(path) or "", origin=place), WaiverFile, origin=place)
        if document.metadata.name != Path(path).stem:
            raise InputError(
                f"{place}: metadata.name is '{document.metadata.name}', but the file is '{Path(path).name}'"
            )
        same = [item for item in waivers if _about(item.spec) == _about(document.spec)]
        if same:
            raise InputError(f"{place}: for the same finding as {same[0].place}", remedy="keep one of them")
        waivers.append(Waiver(spec=document.spec, file=path, place=place))
    return tuple(waivers)


def _about(spec: WaiverSpec) -> tuple[str, str | None, str]:
    return spec.rule, spec.path, spec.digest


@dataclass(frozen=True, kw_only=True)
class Waivers:
    """The waivers of one admission and the policy's terms for them; remembers which ones were needed."""

    waivers: Sequence[Waiver] = ()
    rules: WaiverRules = field(default_factory=WaiverRules)
    release: str | None = None
    """`name@version` of what is judged; None for a model without a release file."""
    today: date = field(default_factory=lambda: datetime.now(UTC).date())
    used: set[str] = field(default_factory=set)
    """Files of waivers that let a finding stand."""
    EXPIRES_SOON_DAYS: ClassVar[int] = 14

    def apply(self, findings: Sequence[Finding], digest: str) -> tuple[tuple[Finding, ...], tuple[WaivedFinding, ...]]:
        """The findings that stand and those that are waived, all made in the tree of `digest`."""
        standing: list[Finding] = []
        waived: list[WaivedFinding] = []
        for finding in findings:
            waiver = next((item for item in self.waivers if item.fits(finding, digest, self.release)), None)
            if waiver is None or waiver.problem(self.rules, self.today):
                standing.append(finding)
                continue
            self.used.add(waiver.file)
            spec = waiver.spec
            waived.append(
                WaivedFinding(
                    finding=finding, waiver=waiver.file, reason=spec.reason, owner=spec.owner, approver=spec.approver,
                    expires=spec.expires.isoformat(),
                )
            )  # fmt: skip
        return tuple(standing), tuple(waived)

    def problems(self, *, digests: frozenset[str], decided: Mapping[str, bool]) -> Iterator[Finding]:
        """A finding for each waiver of this release that does not hold, or that nothing needed.

        `digests`: of the release's trees. `decided`: of each check that was run, whether it came to an end; of one that
        did not, nobody knows what it would have found.
        """
        for waiver in self.waivers:
            spec = waiver.spec
            if spec.release != self.release if spec.release is not None else spec.digest not in digests:
                continue  # another release's business
            if problem := waiver.problem(self.rules, self.today):
                yield _finding("policy.waiver-invalid", waiver, problem, "remove it, or have it renewed by a review")
            elif spec.digest not in digests:
                yield _finding(
                    "policy.waiver-unmatched", waiver,
                    f"is for {spec.release} with other bytes ({spec.digest}) than were judged",
                    "remove it; an exception is for the bytes that were reviewed",
                )  # fmt: skip
            elif waiver.file not in self.used and decided.get(spec.rule.partition(".")[0], False):
                where = f" in {spec.path}" if spec.path else ""
                yield _finding(
                    "policy.waiver-unmatched", waiver, f"matches no finding: {spec.rule}{where} was not found",
                    "remove it, or mend its rule, path or digest",
                )  # fmt: skip


def _finding(rule: str, waiver: Waiver, problem: str, remedy: str) -> Finding:
    return Finding(rule=rule, message=f"the waiver {waiver.file} {problem}", remedy=remedy, path=waiver.file)
