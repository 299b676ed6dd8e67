"""Kubernetes manifests as plain values, and the one way they are written: block style, stable order, no aliases.

Strings that a YAML 1.1 reader (which Kubernetes uses) would take for a boolean, a number or a date are quoted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
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
_LITERAL = re.compile(r"[!-~][ -~]*(?:\n[ -~]*[!-~])+")
_AMBIGUOUS = re.compile(r"[-+.\d][-+\d.,_:a-fxotz ]*|[-+]?\.(inf|nan)|y|n|yes|no|on|off|true|false|null|~|=|<<|", re.I)


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
    return "---\n".join("".join(f"{line}\n" for line in _lines(document)) for document in documents)


def _lines(value: Json) -> Iterator[str]:
    """The lines of a mapping or sequence that is not empty, from its own first column on."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entry(f"{_scalar(key)}:", item)
    elif isinstance(value, Sequence):
        for item in value:
            if _is_block(item):
                first, *rest = _lines(item)
                yield f"- {first}"
                yield from (f"  {line}" for line in rest)
            else:
                yield from _entry("-", item)


def _entry(head: str, item: Json) -> Iterator[str]:
    if _is_block(item):
        yield head
        yield from (f"  {line}" for line in _lines(item))
    elif isinstance(item, str) and _LITERAL.fullmatch(item):
        yield f"{head} |-"
        yield from (f"  {line}" for line in item.split("\n"))
    else:
        yield f"{head} {_scalar(item)}"


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
    return "[]" if isinstance(item, Sequence) else json.dumps(item)


def _quoted(text: str) -> str:
    """A double-quoted scalar; JSON's own escapes would split characters beyond U+FFFF in two."""
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text) + '"'
