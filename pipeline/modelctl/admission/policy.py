"""Admission policies: `policies/<name>.yaml`, typed, and named by one digest.

A check's section is its own `Limits` class, whose defaults are the production figures. The digest is of the
validated values: comments and key order do not move it, a changed default does.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from modelctl.checks.base import CheckLimits
from modelctl.checks.code import CodeLimits
from modelctl.checks.concurrency import ConcurrencyLimits
from modelctl.checks.integrity import IntegrityLimits
from modelctl.checks.long_context import LongContextLimits
from modelctl.checks.malware import MalwareLimits
from modelctl.checks.quantization import QuantizationLimits
from modelctl.checks.tokenizer import TokenizerLimits
from modelctl.documents import Document, load_document, nearest
from modelctl.errors import InputError


class PolicyChecks(Document):
    """One section for each check."""

    integrity: IntegrityLimits = IntegrityLimits()
    malware: MalwareLimits = MalwareLimits()
    code: CodeLimits = CodeLimits()
    tokenizer: TokenizerLimits = TokenizerLimits()
    quantization: QuantizationLimits = QuantizationLimits()
    long_context: Annotated[LongContextLimits, Field(alias="long-context")] = LongContextLimits()
    concurrency: ConcurrencyLimits = ConcurrencyLimits()


class PolicyMetadata(Document):
    """A policy's name."""

    name: str


class PolicySpec(Document):
    """What a policy demands."""

    description: str = ""
    notice: str | None = None
    """A sentence that every report under this policy carries (what makes it unfit for production)."""
    isolation: Literal["required", "preferred"] = "required"
    """Whether a model may be loaded where children can't be isolated."""
    checks: PolicyChecks = PolicyChecks()


class Policy(Document):
    """A whole policy file."""

    api_version: Annotated[Literal["modelctl.dev/v1"], Field(alias="apiVersion")]
    kind: Literal["AdmissionPolicy"]
    metadata: PolicyMetadata
    spec: PolicySpec

    def limits(self, check_id: str) -> CheckLimits:
        """The section of one check."""
        section: CheckLimits = getattr(self.spec.checks, check_id.replace("-", "_"))
        return section


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy and the file it was read from."""

    policy: Policy
    path: Path

    @property
    def name(self) -> str:
        """The policy's own name."""
        return self.policy.metadata.name

    @cached_property
    def digest(self) -> str:
        """`sha256:<hex>` of the validated values as JSON, in the order of the classes."""
        return "sha256:" + hashlib.sha256(self.policy.model_dump_json(by_alias=True).encode()).hexdigest()


def load_policy(name: str, root: Path) -> LoadedPolicy:
    """Read a policy by name (`policies/` of the registry repository, then the built-in ones) or by file. Raises
    `InputError`."""
    path = find_policy(name, root)
    policy = load_document(path, Policy)
    if path.stem != policy.metadata.name:
        raise InputError(f"{path}: metadata.name is '{policy.metadata.name}', but the file is '{path.name}'")
    return LoadedPolicy(policy, path)


def find_policy(name: str, root: Path) -> Path:
    """The file of a policy."""
    if "/" in name or name.endswith((".yaml", ".yml")):
        return Path(name)
    folders = [root / "policies", built_in_folder()]
    for folder in folders:
        if (folder / f"{name}.yaml").is_file():
            return folder / f"{name}.yaml"
    known = sorted({path.stem for folder in folders for path in folder.glob("*.yaml")})
    close = nearest(name, known)
    raise InputError(
        f"no policy '{name}' in {folders[0]}" + (f", did you mean '{close}'?" if close else ""),
        remedy=f"use one of: {', '.join(known)}; or name a file",
    )


def built_in_folder() -> Path:
    """The policies that come with modelctl."""
    return Path(str(resources.files("modelctl") / "policies"))
