"""`policies/cluster/published.yaml`: the releases that the cluster's admission policy lets in.

A ConfigMap from `<name>_<version>` to the served tree's digest (a key may hold no `@`, a release's name and
version no `_`). It changes in the same commit as the rollout that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from modelctl.documents import Document, parse_yaml, validate
from modelctl.rollout.manifest import ServedRelease, dump
from modelctl.rollout.words import PUBLISHED_FILE

_HEADER = "# Written by modelctl rollout: what may be served in this cluster. The admission policy reads it.\n"


class ConfigMapMetadata(Document):
    """Where the ConfigMap lives."""

    name: str
    namespace: str


class Published(Document):
    """The ConfigMap."""

    api_version: Annotated[Literal["v1"], Field(alias="apiVersion")]
    kind: Literal["ConfigMap"]
    metadata: ConfigMapMetadata
    data: dict[
        Annotated[str, StringConstraints(pattern=r"^[a-z0-9.-]+_[0-9A-Za-z.-]+$")],
        Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")],
    ] = Field(default_factory=dict)

    @property
    def releases(self) -> dict[str, str]:
        """`name@version` to tree digest."""
        return {key.replace("_", "@", 1): digest for key, digest in self.data.items()}


def parse_published(text: str, *, origin: str = str(PUBLISHED_FILE)) -> Published:
    """Read the file. Raises `InputError`."""
    return validate(parse_yaml(text, origin=origin), Published, origin=origin)


def with_release(text: str, release: ServedRelease) -> str:
    """The file's text with one release more; the same text when it is there already. Raises `InputError`."""
    published = parse_published(text)
    key = release.id.replace("@", "_", 1)
    if published.data.get(key) == release.tree_digest:
        return text
    data = dict(sorted({**published.data, key: release.tree_digest}.items()))
    return _text(published.metadata, data)


def without_release(text: str, release_id: str) -> str:
    """The file's text without a release; the same text when it is not there. Raises `InputError`."""
    published = parse_published(text)
    key = release_id.replace("@", "_", 1)
    if key not in published.data:
        return text
    data = {name: digest for name, digest in published.data.items() if name != key}
    return _text(published.metadata, data)


def _text(metadata: ConfigMapMetadata, data: Mapping[str, str]) -> str:
    place = {"name": metadata.name, "namespace": metadata.namespace}
    return _HEADER + dump([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": data}])
