"""What git keeps of a published release: `registry/<name>/<version>/record.yaml`, the report and its attestation.

`record.yaml` is written last, so that a folder that has one is whole. Readers get records that agree with themselves
and with their folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from modelctl.admission.model_signature import SIGNATURE_FILE
from modelctl.documents import Document, load_document, write_yaml
from modelctl.errors import InputError
from modelctl.model.release import Metadata, load_release, release_folder, similar_release
from modelctl.registry.manifest import Digest, Served, Sha256, Timestamp
from modelctl.registry.names import ATTESTATION_FILE, BOM_FILE, RECORD_FILE, REPORT_FILE
from modelctl.registry.versions import version_order

KeyId = Annotated[str, StringConstraints(pattern=r"^SHA256:[A-Za-z0-9+/]{43}$")]


class SourceRecord(Document):
    """Where the model came from."""

    description: str
    tree_digest: Digest
    size_bytes: Annotated[int, Field(ge=0)]


class PolicyRecord(Document):
    """Under which policy it was admitted."""

    name: str
    digest: Digest


class EvidenceRecord(Document):
    """The files beside the record, and who signed."""

    report_sha256: Sha256
    attestation_sha256: Sha256
    key_id: KeyId
    """The signing key's fingerprint, as `ssh-keygen -l` prints it."""
    identity: Annotated[str, StringConstraints(min_length=1)] | None = None
    """Whom the certificate of a keyless signature names, `identity (issuer)`; none where a key of its own signs, and in
    records of before it was noted."""
    model_signature_sha256: Sha256 | None = None
    """Of `model.sig`; none where no ECDSA key signs, and in records of before there was one."""
    bom_sha256: Sha256 | None = None
    """Of `bom.cdx.json`; none in records of before there was one."""

    @property
    def files(self) -> dict[str, str]:
        """The files' names and sha256s."""
        every = {
            REPORT_FILE: self.report_sha256,
            ATTESTATION_FILE: self.attestation_sha256,
            SIGNATURE_FILE: self.model_signature_sha256,
            BOM_FILE: self.bom_sha256,
        }
        return {name: sha256 for name, sha256 in every.items() if sha256 is not None}


class Record(Document):
    """A whole record."""

    api_version: Annotated[Literal["modelctl.dev/v1"], Field(alias="apiVersion")] = "modelctl.dev/v1"
    kind: Literal["ReleaseRecord"] = "ReleaseRecord"
    metadata: Metadata
    published_at: Timestamp
    source: SourceRecord
    policy: PolicyRecord
    evidence: EvidenceRecord
    served: Served

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.metadata.name}@{self.metadata.version}"

    def to_yaml(self) -> str:
        """The file's text: keys in the order of the classes."""
        return write_yaml(self.model_dump(mode="json", by_alias=True))


def load_record(root: Path, name: str, version: str) -> Record:
    """The record of one release of a registry repository. Raises `InputError`: not published, malformed, of another."""
    path = release_folder(root, name, version) / RECORD_FILE
    if not path.is_file():
        close = similar_release(root, name, version)
        if close not in (None, f"{name}@{version}"):
            raise InputError(f"{name}@{version} is not published: no {path}", remedy=f"did you mean {close}?")
        raise InputError(
            f"{name}@{version} is not published: no {path}",
            remedy=f"modelctl list shows what is; modelctl publish {name}@{version} publishes an admitted release",
        )
    record = load_document(path, Record)
    if record.id != f"{name}@{version}":
        raise InputError(f"{path}: is the record of {record.id}", remedy=f"git log -- {path}")
    return record


def list_records(root: Path) -> tuple[Record, ...]:
    """Every record of a registry repository, by name, then by version. Raises `InputError` if one is malformed."""
    paths = (root / "registry").glob(f"*/*/{RECORD_FILE}")
    records = [load_record(root, path.parent.parent.name, path.parent.name) for path in paths]
    return tuple(sorted(records, key=lambda r: (r.metadata.name, version_order(r.metadata.version))))


def proposed_releases(root: Path) -> tuple[Metadata, ...]:
    """Every release that has a release file and no record, in that order. Raises `InputError` if malformed."""
    paths = (root / "registry").glob("*/*/release.yaml")
    found = [load_release(path).metadata for path in paths if not path.with_name(RECORD_FILE).exists()]
    return tuple(sorted(found, key=lambda metadata: (metadata.name, version_order(metadata.version))))
