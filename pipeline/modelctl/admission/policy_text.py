"""A policy for people: its values with their places, as YAML, and what is wrong in a folder of policies and waivers."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from modelctl.admission.names import SIGNERS_FILE, SIGNERS_FOLDER
from modelctl.admission.own_checks import installed
from modelctl.admission.policy import LoadedPolicy, Policy, load_policy
from modelctl.admission.policy_files import POLICIES, RuleFiles
from modelctl.admission.policy_layers import known_policies
from modelctl.admission.signers import KEYLESS, PEM, TRUSTED_ROOT, repository_signers
from modelctl.admission.waivers import FOLDER, load_waivers
from modelctl.errors import ModelctlError
from modelctl.field_docs import fields


@dataclass(frozen=True, kw_only=True)
class Value:
    """One value of a policy and where it comes from."""

    key: str
    value: object
    file: str | None
    """None: no file writes it, it is the default."""
    line: int | None


def values(loaded: LoadedPolicy) -> Iterator[Value]:
    """Every value below `spec`, in the order of the classes."""
    document = loaded.policy.model_dump(mode="json", by_alias=True)
    for key, value in _leaves(document["spec"], ("spec",)):
        origin = next(
            (loaded.origins[key[:size]] for size in range(len(key), 1, -1) if key[:size] in loaded.origins), None
        )
        yield Value(
            key=".".join(key[1:]),
            value=value,
            file=origin.file if origin else None,
            line=origin.line if origin else None,
        )


def meaning(key: str) -> str:
    """What a key below `spec` means, as it stands in the source; "" for a name that the author chose."""
    return _meanings().get(tuple(key.split(".")), "")


@cache
def _meanings() -> Mapping[tuple[str, ...], str]:
    return {item.key[1:]: item.text for item in fields(Policy) if item.key[0] == "spec"}


def as_yaml(loaded: LoadedPolicy) -> str:
    """The policy with everything that it extends and every default written out; a policy file itself."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 120
    yaml.default_flow_style = False
    out = io.StringIO()
    yaml.dump(loaded.policy.model_dump(mode="json", by_alias=True), out)
    return out.getvalue()


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a look at the rules of a repository found."""

    policies: tuple[LoadedPolicy, ...]
    waivers: int
    problems: tuple[str, ...]


def check(files: RuleFiles, names: Sequence[str] = ()) -> Checked:
    """Load policies (all that the repository has, where none is named), every waiver and the signers."""
    policies: list[LoadedPolicy] = []
    problems: list[str] = []
    for name in names or known_policies(files):
        try:
            policies.append(load_policy(name, files.root, files))
        except ModelctlError as error:
            problems.append(error.message)
    there = installed()
    for loaded in policies:
        missing = sorted(loaded.policy.spec.own_checks.keys() - there.keys())
        problems += [f"{loaded.place}: own check '{name}' is not installed here" for name in missing]
    waivers = 0
    try:
        today = datetime.now(UTC).date()
        found = load_waivers(files)
        waivers = len(found)
        problems += [
            f"{item.place}: expired on {item.spec.expires}; remove it, or have it renewed by a review"
            for item in found
            if item.spec.expires < today
        ]
    except ModelctlError as error:
        problems.append(error.message)
    try:
        repository_signers(files)
    except ModelctlError as error:
        problems.append(error.message)
    problems += [
        f"{files.place(path)}: neither a policy (.yaml) nor the signers' file"
        for path in files.listing(POLICIES)
        if not path.endswith((".yaml", ".md")) and path != SIGNERS_FILE.as_posix()
    ]
    problems += [
        f"{files.place(path)}: not a signer: wanted a name that ends with {PEM} or {KEYLESS}"
        for path in files.listing(SIGNERS_FOLDER)
        if not path.endswith((PEM, KEYLESS, TRUSTED_ROOT, ".md"))
    ]
    problems += [
        f"{files.place(path)}: not a waiver: wanted a name that ends with .yaml"
        for path in files.listing(FOLDER)
        if not path.endswith((".yaml", ".yml", ".md"))
    ]
    return Checked(policies=tuple(policies), waivers=waivers, problems=tuple(problems))


def _leaves(section: Mapping[str, Any], at: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, value in section.items():
        key = (*at, str(name))
        if isinstance(value, dict) and value and len(key) <= 3:
            yield from _leaves(value, key)
        else:
            yield key, value
