"""Kubernetes manifests as plain values, and the one way they are written: block style, stable order, no aliases.

Strings that a YAML 1.1 reader (which Kubernetes uses) would take for a boolean, a number or a date are quoted.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from modelctl.errors import InputError
from modelctl.model.tree import DIGEST_PREFIX

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"
Manifest: TypeAlias = Mapping[str, Json]

RELEASE_ANNOTATION = "modelctl.dev/release"
DIGEST_ANNOTATION = "modelctl.dev/tree-digest"
NAME_LABEL = "app.kubernetes.io/name"
HASH_LABEL = "rollouts-pod-template-hash"

_MAX_NAME = 63 - len("-canary")
_DNS_1035 = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_AMBIGUOUS = re.compile(
    r"[-+]?\.?\d[-+\d.,_:a-fxotz ]*|[-+]?\.(inf|nan)|y|n|yes|no|on|off|true|false|null|~|=|<<|", re.I
)


@dataclass(frozen=True, kw_only=True)
class ServedRelease:
    """A published release as a deployment needs it."""

    name: str
    version: str
    tree_digest: str
    """`sha256:<hex>` of the served tree."""
    uri: str
    """`s3://bucket/name/version`, where the served files lie."""
    size_bytes: int

    def __post_init__(self) -> None:
        if not re.fullmatch(re.escape(DIGEST_PREFIX) + "[0-9a-f]{64}", self.tree_digest):
            raise InputError(f"{self.id}: '{self.tree_digest}' is no tree digest", remedy="publish the release again")

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    @property
    def annotations(self) -> Mapping[str, str]:
        """What the cluster policy, the init container and the audit read."""
        return {RELEASE_ANNOTATION: self.id, DIGEST_ANNOTATION: self.tree_digest}


def resource_name(name: str) -> str:
    """A model's name as a Service may carry it: at most 56 characters, a letter first, no dots.

    A name that has to be changed ends in six hex digits of its sha256, so that two models never share one object.
    """
    if len(name) <= _MAX_NAME and _DNS_1035.fullmatch(name):
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:6]
    plain = re.sub(r"[^a-z0-9-]", "-", name)
    if not plain[0].isalpha():
        plain = f"m-{plain}"
    return f"{plain[: _MAX_NAME - 7].rstrip('-')}-{mark}"


def dump(documents: Sequence[Manifest]) -> str:
    """The documents of one file as YAML text."""
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.representer.ignore_aliases = lambda *_: True
    stream = io.StringIO()
    for index, document in enumerate(documents):
        if index:
            stream.write("---\n")
        yaml.dump(_styled(document), stream)
    return stream.getvalue()


def _styled(value: Json) -> object:
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

    if isinstance(value, str):
        if "\n" in value:
            return LiteralScalarString(value)
        return DoubleQuotedScalarString(value) if _AMBIGUOUS.fullmatch(value) else value
    if isinstance(value, Mapping):
        return {str(_styled(key)): _styled(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_styled(item) for item in value]
    return value
