"""Kubernetes manifests as plain values, and the one way they are written: block style, stable order, no aliases.

Strings that a YAML 1.1 reader (which Kubernetes uses) would take for a boolean, a number or a date are quoted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from modelctl.errors import InputError
from modelctl.model.tree import DIGEST_PREFIX
from modelctl.rollout.words import DIGEST_ANNOTATION, RELEASE_ANNOTATION

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"
Manifest: TypeAlias = Mapping[str, Json]

NAME_LABEL = "app.kubernetes.io/name"
HASH_LABEL = "rollouts-pod-template-hash"

_MAX_NAME = 63 - len("-canary")
_DNS_1035 = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_PLAIN = re.compile(r"(?!---|\.\.\.)(?:[A-Za-z0-9./_(]|-(?=[A-Za-z-]))(?:[!-9;-~]|:(?! |$)| (?![ #]))*(?<![ :])")
_LITERAL = re.compile(r"[!-~][ -~]*(?:\n(?:[ -~]*[!-~])?)*\n[ -~]*[!-~]\n?")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
_AMBIGUOUS = re.compile(r"[-+.\d][-+\d.,_:a-fxotz ]*|[-+]?\.(inf|nan)|y|n|yes|no|on|off|true|false|null|~|=|<<|", re.I)


class Commented(str):
    """A text that is written with a comment behind it; one line each."""

    comment: str

    def __new__(cls, text: str, comment: str) -> Commented:
        """The text, which compares like any other."""
        made = super().__new__(cls, text)
        made.comment = " ".join(comment.split())
        return made


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
    signature: str | None = None
    """The text of the record's OpenSSF model signature; None where it has none."""

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


def series_label(label: str) -> str:
    """A pod's label as Prometheus has it on the pod's series."""
    return re.sub(r"[^A-Za-z0-9_]", "_", label)


def series_of(namespace: str, name: str) -> str:
    """The matchers of all series of a model's engines, without braces."""
    return f'namespace="{namespace}",{series_label(NAME_LABEL)}="{name}"'


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
    lines: list[str] = []
    for document in documents:
        if lines:
            lines.append("---")
        _block(lines, document, "", "")
    return "\n".join([*lines, ""])


def _block(lines: list[str], value: Json, first: str, indent: str) -> None:
    """Append a mapping or sequence that is not empty; its first line begins with `first`, every other with `indent`."""
    if isinstance(value, dict | Mapping):  # dict is told at once, any other mapping is not
        for key, item in value.items():
            _entry(lines, f"{first}{_text(key)}:", item, indent)
            first = indent
    elif isinstance(value, Sequence):
        for item in value:
            if _is_block(item):
                _block(lines, item, f"{first}- ", f"{indent}  ")
            else:
                _entry(lines, f"{first}-", item, indent)
            first = indent


def _entry(lines: list[str], head: str, item: Json, indent: str) -> None:
    if isinstance(item, str):
        if "\n" in item and _LITERAL.fullmatch(item):
            lines.append(f"{head} |" if item.endswith("\n") else f"{head} |-")
            lines.extend(f"{indent}  {line}" if line else "" for line in item.removesuffix("\n").split("\n"))
        else:
            comment = f"  # {item.comment}" if isinstance(item, Commented) else ""
            lines.append(f"{head} {_text(item)}{comment}")
    elif _is_block(item):
        lines.append(head)
        _block(lines, item, f"{indent}  ", f"{indent}  ")
    else:
        lines.append(f"{head} {_scalar(item)}")


def _is_block(item: Json) -> bool:
    if isinstance(item, str | int | float | None):  # asked first: nearly every value is one
        return False
    return bool(item)


@lru_cache(maxsize=8192)
def _text(item: str) -> str:
    """A text as a scalar; the same few hundred come again in every manifest."""
    return item if _PLAIN.fullmatch(item) and not _AMBIGUOUS.fullmatch(item) else _quoted(item)


def _scalar(item: Json) -> str:
    if isinstance(item, str):
        return _text(item)
    if isinstance(item, Mapping):
        return "{}"
    if isinstance(item, Sequence):
        return "[]"
    return str(item) if type(item) is int else json.dumps(item)


def _quoted(text: str) -> str:
    """A double-quoted scalar; JSON's own escapes would split characters beyond U+FFFF in two."""
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}") for c in text) + '"'
