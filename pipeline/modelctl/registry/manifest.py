"""The list of what is served, as the bucket's manifest and the record in git both hold it.

A release exists when its manifest does: `.modelctl/releases/<name>/<version>.json`, written last and only if absent.
Whatever reads such a list gets one that agrees with itself: the tree digest and size follow from the files, and no path
leaves the folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError, field_validator, model_validator

from modelctl.documents import Document
from modelctl.errors import RefusedError
from modelctl.model.release import Metadata
from modelctl.model.tree import FileEntry, Tree

MANIFESTS = ".modelctl/releases/"
ATTESTATIONS = ".modelctl/attestations/"
SIGNATURES = ".modelctl/signatures/"
BOMS = ".modelctl/boms/"
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Timestamp = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]


class ServedFile(Document):
    """One file that is served."""

    path: str
    size_bytes: Annotated[int, Field(ge=0)]
    sha256: Sha256

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        parts = path.split("/")
        if not path.isprintable() or any(part in ("", ".", "..") for part in parts):
            raise ValueError("is no plain path inside the release")
        return path


class Served(Document):
    """The tree that an engine loads, and where its files are."""

    tree_digest: Digest
    size_bytes: Annotated[int, Field(ge=0)]
    uri: Annotated[str, StringConstraints(pattern=r"^s3://[^/\s]+/\S+$")]
    """`s3://<bucket>/<name>/<version>`; the files' keys are this and their paths."""
    files: Annotated[tuple[ServedFile, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Served:
        tree = as_tree(self.files)
        if len(tree.by_path) != len(self.files):
            raise ValueError("lists a path twice")
        if (tree.digest, tree.size_bytes) != (self.tree_digest, self.size_bytes):
            raise ValueError(f"the files listed make {tree.digest} of {tree.size_bytes} bytes")
        return self

    @classmethod
    def of(cls, tree: Tree, *, bucket: str, name: str, version: str) -> Served:
        """What is served when `tree` is published."""
        return cls(
            tree_digest=tree.digest,
            size_bytes=tree.size_bytes,
            uri=f"s3://{bucket}/{object_prefix(name, version)}".rstrip("/"),
            files=tuple(ServedFile(path=f.path, size_bytes=f.size_bytes, sha256=f.sha256) for f in tree.files),
        )

    @property
    def tree(self) -> Tree:
        """The list as a tree without a place on disk."""
        return as_tree(self.files)


class Manifest(Document):
    """What the bucket says of a release."""

    schema_version: Literal["1"] = "1"
    release: Metadata
    served: Served
    published_at: Timestamp

    def to_json(self) -> bytes:
        """Deterministic JSON with a final newline."""
        return json.dumps(self.model_dump(), indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def from_json(cls, content: bytes, *, name: str, version: str) -> Manifest:
        """Parse a release's manifest. Raises `RefusedError`: malformed, contradicts itself, of another release."""
        key = manifest_key(name, version)
        remedy = "someone wrote to the bucket past modelctl: restore the object, and check who may write there"
        try:
            manifest = cls.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "(top)"
            raise RefusedError(f"{key}: not a manifest: '{where}': {first['msg']}", remedy=remedy) from error
        if (manifest.release.name, manifest.release.version) != (name, version):
            raise RefusedError(
                f"{key}: is the manifest of {manifest.release.name}@{manifest.release.version}", remedy=remedy
            )
        return manifest


def as_tree(files: Sequence[ServedFile]) -> Tree:
    """A list of files as a tree without a place on disk."""
    entries = (FileEntry(path=f.path, size_bytes=f.size_bytes, sha256=f.sha256) for f in files)
    return Tree(root=Path(), files=tuple(entries))


def manifest_key(name: str, version: str) -> str:
    """The manifest's key in the bucket."""
    return f"{MANIFESTS}{name}/{version}.json"


def attestation_key(name: str, version: str) -> str:
    """Where the bucket keeps the signed attestation, for those who pull without git."""
    return f"{ATTESTATIONS}{name}/{version}.dsse.json"


def signature_key(name: str, version: str) -> str:
    """Where the bucket keeps the model's signature for other tools."""
    return f"{SIGNATURES}{name}/{version}.sig"


def bom_key(name: str, version: str) -> str:
    """Where the bucket keeps the bill of materials."""
    return f"{BOMS}{name}/{version}.cdx.json"


def paper_keys(name: str, version: str) -> tuple[str, ...]:
    """The keys of everything that the bucket may keep of a release beside its files and its manifest."""
    return (attestation_key(name, version), signature_key(name, version), bom_key(name, version))


def object_prefix(name: str, version: str) -> str:
    """What the keys of a release's files begin with."""
    return f"{name}/{version}/"
