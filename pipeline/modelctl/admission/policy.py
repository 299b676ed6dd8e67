"""Admission policies: `policies/<name>.yaml`, typed, and named by one digest.

A check's section is its own `Limits` class, whose defaults are the production figures. The digest is of the validated
values of the policy and all that it extends: comments, key order and inheritance do not move it, a changed default
does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints, model_validator

from modelctl.admission.policy_files import FolderFiles, RuleFiles, built_in_folder
from modelctl.admission.policy_layers import Key, Layer, ValueOrigin, merge, read_layer, read_layers
from modelctl.checks.base import CheckLimits
from modelctl.checks.limits import (
    CodeLimits,
    ConcurrencyLimits,
    IntegrityLimits,
    LongContextLimits,
    MalwareLimits,
    QuantizationLimits,
    TokenizerLimits,
)
from modelctl.documents import Document, validate
from modelctl.errors import InputError

__all__ = ["LoadedPolicy", "Policy", "built_in_folder", "find_policy", "load_policy"]

RuleId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
CheckId = RuleId


class PolicyChecks(Document):
    """One section for each check."""

    integrity: IntegrityLimits = IntegrityLimits()
    """See [integrity](checks.md#integrity)."""
    malware: MalwareLimits = MalwareLimits()
    """See [malware](checks.md#malware)."""
    code: CodeLimits = CodeLimits()
    """See [code](checks.md#code)."""
    tokenizer: TokenizerLimits = TokenizerLimits()
    """See [tokenizer](checks.md#tokenizer)."""
    quantization: QuantizationLimits = QuantizationLimits()
    """See [quantization](checks.md#quantization)."""
    long_context: Annotated[LongContextLimits, Field(alias="long-context")] = LongContextLimits()
    """See [long-context](checks.md#long-context)."""
    concurrency: ConcurrencyLimits = ConcurrencyLimits()
    """See [concurrency](checks.md#concurrency)."""


class PolicyMetadata(Document):
    """A policy's name."""

    name: str
    """The file's name without `.yaml`."""


class EvidenceRules(Document):
    """What `modelctl gate` takes from other runners."""

    max_age_hours: Annotated[float, Field(gt=0)] = 168
    """Evidence whose first check began longer ago decides nothing any more."""
    signatures: Literal["required", "optional"] = "optional"
    """Whether every report must be signed (`modelctl admit --sign`) by a key of `policies/allowed_signers`. A signature
    that is there is verified in any case."""


class WaiverRules(Document):
    """What may be waived, and for how long."""

    never: tuple[str, ...] = ()
    """Shell patterns of rules that no waiver may name (`malware.*`)."""
    max_days: Annotated[int, Field(ge=1)] = 365
    """A waiver that expires later than so many days from today is refused."""


class Retention(Document):
    """For how long nobody may change or remove a published release, on a bucket with object lock."""

    mode: Literal["governance", "compliance"] = "governance"
    """`governance`: a user with a permission of its own may lift it; `compliance`: nobody may."""
    days: Annotated[int, Field(ge=1)]
    """Counted from the publication."""


class HistoryRules(Document):
    """What git itself has to prove, besides the attestation; `modelctl audit --verify` reads it."""

    commits: Literal["signed", "unsigned"] = "unsigned"
    """`signed`: commits that publish, or that change what an environment serves, carry an SSH signature of a key that
    `policies/allowed_signers` listed before them."""
    tags: Literal["signed", "unsigned"] = "unsigned"
    """`signed`: the same of release tags."""


class Rule(Document):
    """A team's own rule: a CEL expression over the report."""

    id: RuleId
    """Its finding is `policy.rule-<id>`; a policy that extends this one replaces the rule of the same id."""
    expr: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    """A CEL expression over `report`, the fields of `report.json` without verdict and reasons; false is a finding."""
    message: Annotated[str, StringConstraints(min_length=1)]
    """What the finding says."""


class OwnCheck(CheckLimits):
    """A team's own check: an installed entry point of the group `modelctl.checks` with the section's name."""

    memory_limit_mib: Annotated[int, Field(ge=64)] = 2048
    """What its child and all that it starts may use."""
    options: dict[str, JsonValue] = Field(default_factory=dict)
    """Handed to the check as they are."""


class PolicySpec(Document):
    """What a policy demands."""

    extends: Annotated[str | None, Field(exclude=True)] = None
    """The policy that this one is written over: a name in `policies/`, or `modelctl:NAME` for one that comes with
    modelctl."""
    description: str = ""
    """What it is for, in a sentence; not inherited."""
    notice: str | None = None
    """A sentence that every report under this policy carries (what makes it unfit for production)."""
    isolation: Literal["required", "preferred"] = "required"
    """Whether a model may be loaded where children can't be isolated."""
    sources: tuple[Literal["hub", "folder", "s3", "dvc"], ...] = ("hub", "folder", "s3", "dvc")
    """Where a model may come from; whose Hub repositories, `checks.integrity.owners` says."""
    licenses: tuple[Annotated[str, StringConstraints(min_length=1, to_lower=True)], ...] = ()
    """Licences that a model may have, as its card names them (`license`, or `license_name` where that is `other`); none
    named allows all. A card that can't be read leaves the release undecided then."""
    evidence: EvidenceRules = EvidenceRules()
    """What `modelctl gate` takes from other runners."""
    waivers: WaiverRules = WaiverRules()
    """What may be waived, and for how long."""
    retention: Retention | None = None
    """For how long the object store keeps a release from being changed or removed; none: it is not asked to."""
    history: Annotated[HistoryRules | None, Field(exclude_if=lambda value: value is None)] = None
    """What git itself has to prove; none: nothing. A policy that does not name it has the digest that it had before."""
    checks: PolicyChecks = PolicyChecks()
    """One section for each check."""
    own_checks: dict[CheckId, OwnCheck] = Field(default_factory=dict)
    """A team's own checks that are run, by the names of their entry points."""
    rules: tuple[Rule, ...] = ()
    """A team's own rules over the whole report."""

    @model_validator(mode="after")
    def _one_id_each(self) -> PolicySpec:
        ids = [rule.id for rule in self.rules]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"rules: id '{twice[0]}' is there twice")
        taken = {field.alias or name for name, field in PolicyChecks.model_fields.items()} | {"policy"}
        if shadowed := sorted(taken & self.own_checks.keys()):
            raise ValueError(f"own_checks: '{shadowed[0]}' is the name of a check of modelctl")
        return self


class Policy(Document):
    """A whole policy file."""

    api_version: Annotated[Literal["modelctl.dev/v1"], Field(alias="apiVersion")]
    """The format's version."""
    kind: Literal["AdmissionPolicy"]
    """What the file is."""
    metadata: PolicyMetadata
    """The policy's name."""
    spec: PolicySpec
    """What it demands."""

    def limits(self, check_id: str) -> CheckLimits:
        """The section of one check, or of a team's own. Raises `KeyError` for one that the policy does not name."""
        name = check_id.replace("-", "_")
        if name not in PolicyChecks.model_fields:
            return self.spec.own_checks[check_id]
        section: CheckLimits = getattr(self.spec.checks, name)
        return section


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy and where it was read from."""

    policy: Policy
    path: Path
    layers: tuple[Layer, ...] = ()
    """Its file, then those that it extends."""
    origins: Mapping[Key, ValueOrigin] = field(default_factory=dict)
    """Where each value stands that a file writes; what is not there is a default."""

    @property
    def name(self) -> str:
        """The policy's own name."""
        return self.policy.metadata.name

    @cached_property
    def digest(self) -> str:
        """`sha256:<hex>` of the validated values as JSON, in the order of the classes."""
        return "sha256:" + hashlib.sha256(self.policy.model_dump_json(by_alias=True).encode()).hexdigest()

    @property
    def place(self) -> str:
        """How errors and reports name its file."""
        return self.layers[0].place if self.layers else str(self.path)


def load_policy(name: str, root: Path, files: RuleFiles | None = None) -> LoadedPolicy:
    """Read a policy by name (`policies/` of the registry repository, then the built-in ones) or by file, with all that
    it extends. `files`: of a commit instead of the working tree at `root`.

    Raises `InputError`, also for a rule that is no CEL expression; `CannotDecideError` without the library for them.
    """
    from modelctl.admission.rules import compile_rules

    layers = read_layers(name, files or FolderFiles(root))
    for layer in layers:
        own = validate(layer.document, Policy, origin=layer.place)
        if layer.path.stem != own.metadata.name:
            raise InputError(
                f"{layer.place}: metadata.name is '{own.metadata.name}', but the file is '{layer.path.name}'"
            )
    merged = merge(layers)
    policy = validate(merged.document, Policy, origin=" over ".join(layer.place for layer in layers))
    loaded = LoadedPolicy(policy, layers[0].path, layers, merged.origins)
    if policy.spec.rules:
        origin = merged.origins.get(("spec", "rules"))
        compile_rules(policy.spec.rules, origin=f"{origin.file}:{origin.line}" if origin else loaded.place)
    return loaded


def find_policy(name: str, root: Path) -> Path:
    """The file of a policy in the working tree, or of a built-in one."""
    return read_layer(name, FolderFiles(root)).path
