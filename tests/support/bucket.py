"""Releases placed in a bucket as a publication leaves them, without one: files, attestation and manifest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from modelctl.admission.attestation import sign
from modelctl.admission.keys import KeySigner, load_signing_key
from modelctl.model.release import Metadata
from modelctl.model.tree import FileEntry, Tree
from modelctl.registry.manifest import Manifest, Served, attestation_key, manifest_key, object_prefix
from modelctl.registry.store import ObjectStore
from tests.support.reports import a_report
from tests.support.s3_servers import put

PUBLISHED_AT = "2026-01-02T03:04:05Z"


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A release in a bucket."""

    name: str
    version: str
    served: Served
    files: dict[str, bytes]

    @property
    def id(self) -> str:
        return f"{self.name}@{self.version}"


def entry_of(path: str, content: bytes) -> FileEntry:
    return FileEntry(path=path, size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def place(
    store: ObjectStore,
    files: dict[str, bytes],
    *,
    name: str = "tiny",
    version: str = "1.0.0",
    key: Path | None = None,
) -> Placed:
    """Put a release into the bucket; with a signing key its attestation too."""
    store.ensure_bucket()
    tree = Tree(root=Path(), files=tuple(entry_of(path, content) for path, content in sorted(files.items())))
    served = Served.of(tree, bucket=store.bucket, name=name, version=version)
    for entry in tree.files:
        overwrite(store, object_prefix(name, version) + entry.path, files[entry.path], sha256=entry.sha256)
    if key is not None:
        report = a_report(release=f"{name}@{version}", served_digest=tree.digest)
        report = replace(report, model=replace(report.model, source_digest=tree.digest))
        overwrite(
            store,
            attestation_key(name, version),
            sign(report, tree, KeySigner(load_signing_key(key))).to_json().encode(),
        )
    manifest = Manifest(release=Metadata(name=name, version=version), served=served, published_at=PUBLISHED_AT)
    overwrite(store, manifest_key(name, version), manifest.to_json())
    return Placed(name=name, version=version, served=served, files=files)


def overwrite(store: ObjectStore, key: str, content: bytes, *, sha256: str | None = None) -> None:
    """Write an object past modelctl."""
    put(store.server, store.bucket, key, content, {"sha256": sha256} if sha256 else None)
