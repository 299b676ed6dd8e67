"""What a Rollout manifest says that it serves: release and digest, named alike by the object and by its pods, and
whether an init container verifies that digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modelctl.errors import InputError
from modelctl.rollout.lint.reading import documents
from modelctl.rollout.words import DIGEST_ANNOTATION, RELEASE_ANNOTATION, ROLLOUT_FILE

_KEYS = (RELEASE_ANNOTATION, DIGEST_ANNOTATION)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a Rollout manifest says that it serves."""

    environment: str
    name: str
    release: str | None
    digest: str | None
    """None when the object and its pods disagree, or say nothing."""
    verified_digest: bool
    """Whether an init container is given that digest to verify."""

    @property
    def path(self) -> str:
        """The manifest's path, relative to the root."""
        return f"gitops/environments/{self.environment}/{self.name}/{ROLLOUT_FILE}"


def what_it_says(content: bytes | None) -> tuple[str | None, str | None, bool]:
    """What a manifest's bytes say: release, digest, and whether an init container verifies that digest."""
    try:
        found = [value for _, value in documents((content or b"").decode(errors="replace"), origin=ROLLOUT_FILE)]
    except InputError:
        found = []
    manifest = found[0] if len(found) == 1 else None
    outer, inner = _annotations(manifest), _annotations(_at(manifest, "spec", "template"))
    values = {key: outer.get(key) if outer.get(key) == inner.get(key) else None for key in _KEYS}
    digest = values[DIGEST_ANNOTATION]
    containers = _at(manifest, "spec", "template", "spec", "initContainers")
    words = [
        word
        for container in (containers if isinstance(containers, list) else [])
        for key in ("command", "args")
        for word in _words(_at(container, key))
    ]
    return values[RELEASE_ANNOTATION], digest, digest is not None and any(digest in word for word in words)


def _annotations(manifest: object) -> Mapping[str, str]:
    found = _at(manifest, "metadata", "annotations")
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _at(value: Any, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _words(value: object) -> Sequence[str]:
    return [str(word) for word in value] if isinstance(value, list) else []
