"""What git and the bucket each say of one release, held against each other: record, report, attestation,
model signature, bill of materials, manifest, tag.

A claim that nobody could check is never one that agrees.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from modelctl.admission.model_signature import SIGNATURE_FILE, verify_model
from modelctl.admission.report import Report
from modelctl.admission.signers import AllowedSigner
from modelctl.errors import CannotDecideError, InputError, RefusedError
from modelctl.git import Git
from modelctl.model.release import release_folder
from modelctl.registry.manifest import Manifest, attestation_key, bom_key, manifest_key, signature_key
from modelctl.registry.names import ATTESTATION_FILE, BOM_FILE, RECORD_FILE, REPORT_FILE
from modelctl.registry.records import Record
from modelctl.registry.store import ObjectStore
from modelctl.registry.trust import Signed, verified

_PAPERS = {SIGNATURE_FILE: "model signature", BOM_FILE: "bill of materials"}
State = Literal["agrees", "contradicts", "unchecked"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim, and how it stands beside the record."""

    what: str
    state: State
    detail: str
    remedy: str | None = None
    signed: Signed | None = None
    """Of the attestation, when its signature was verified."""


def claims_in_git(root: Path, record: Record, signers: Sequence[AllowedSigner] | None) -> Iterator[Claim]:
    """What the registry repository says beside the record. Raises `InputError` for a malformed list of signers."""
    yield _report(root, record)
    yield _attestation(root, record, signers)
    folder = _folder(root, record)
    for name, sha256 in _beside(record).items():
        content = (folder / name).read_bytes() if (folder / name).is_file() else None
        yield _paper(_PAPERS[name], content, sha256, record, signers, origin=name)
    yield _tag(root, record)


def claims_in_bucket(store: ObjectStore, record: Record, signers: Sequence[AllowedSigner] | None) -> Iterator[Claim]:
    """What the bucket says beside the record. Raises `StoreError`."""
    name, version = record.metadata.name, record.metadata.version
    content = store.read(manifest_key(name, version))
    if content is None:
        detail = f"there is none in {store.place}: for whoever pulls, the release does not exist"
        yield Claim(what="manifest", state="contradicts", detail=detail, remedy=f"modelctl publish {record.id}")
    else:
        yield _manifest(content, record)
    attestation = store.read(attestation_key(name, version))
    what = "attestation in the bucket"
    if attestation is None:
        detail = "there is none, so that nobody without git can verify who signed"
        yield Claim(what=what, state="unchecked", detail=detail, remedy=f"modelctl publish {record.id} puts it there")
    else:
        yield _signed(what, attestation, record, signers, origin=attestation_key(name, version))
    keys = {SIGNATURE_FILE: signature_key(name, version), BOM_FILE: bom_key(name, version)}
    for file, sha256 in _beside(record).items():
        what = f"{_PAPERS[file]} in the bucket"
        yield _paper(what, store.read(keys[file]), sha256, record, signers, origin=keys[file])


def _beside(record: Record) -> Mapping[str, str]:
    """Name and sha256 of what the record names beside report and attestation."""
    return {name: sha256 for name, sha256 in record.evidence.files.items() if name in _PAPERS}


def _paper(
    what: str,
    content: bytes | None,
    sha256: str,
    record: Record,
    signers: Sequence[AllowedSigner] | None,
    *,
    origin: str,
) -> Claim:
    """The model's signature or the bill of materials: the file that the record names, and of the bytes it names."""
    if content is None or hashlib.sha256(content).hexdigest() != sha256:
        detail = f"{origin} " + ("is not there" if content is None else "is not the file that the record names")
        remedy = f"git log -p -- {origin}, or modelctl publish {record.id} where the bucket lost it"
        return Claim(what=what, state="contradicts", detail=detail, remedy=remedy)
    if not what.startswith(_PAPERS[SIGNATURE_FILE]):
        return Claim(what=what, state="agrees", detail="is the file that the record names")
    if signers is None:
        return _nobody(what)
    try:
        signer = verify_model(content, record.served.tree, signers, origin=origin)
    except RefusedError as error:
        return Claim(what=what, state="contradicts", detail=error.message, remedy=error.remedy)
    except CannotDecideError as error:
        return Claim(what=what, state="unchecked", detail=error.message, remedy=error.remedy)
    return Claim(what=what, state="agrees", detail=f"signed by {', '.join(signer.principals)} ({signer.verifier.name})")


def _manifest(content: bytes, record: Record) -> Claim:
    try:
        manifest = Manifest.from_json(content, name=record.metadata.name, version=record.metadata.version)
    except RefusedError as error:
        return Claim(what="manifest", state="contradicts", detail=error.message, remedy=error.remedy)
    if manifest.served.tree_digest != record.served.tree_digest:
        return Claim(
            what="manifest",
            state="contradicts",
            detail=f"it names {manifest.served.tree_digest}, the record {record.served.tree_digest}",
            remedy="someone wrote to the bucket past modelctl: restore the manifest, and check who may write there",
        )
    return Claim(what="manifest", state="agrees", detail=f"names {record.served.tree_digest}")


def _report(root: Path, record: Record) -> Claim:
    path = _folder(root, record) / REPORT_FILE
    remedy = f"git log -p -- {path}"
    if not path.is_file() or _sha256(path) != record.evidence.report_sha256:
        what = "is not the file that the record names" if path.is_file() else "is not there"
        return Claim(what="report", state="contradicts", detail=f"{path.name} {what}", remedy=remedy)
    try:
        report = Report.from_json(path.read_text(encoding="utf-8"), origin=str(path))
    except (InputError, UnicodeDecodeError) as error:
        return Claim(what="report", state="contradicts", detail=f"{path.name} can't be read: {error}", remedy=remedy)
    if report.verdict != "admitted" or report.partial or report.model.served_digest != record.served.tree_digest:
        detail = f"it says {report.verdict}, of {report.model.served_digest}"
        return Claim(what="report", state="contradicts", detail=detail, remedy=remedy)
    return Claim(what="report", state="agrees", detail=f"admitted at {report.created_at} under '{report.policy.name}'")


def _attestation(root: Path, record: Record, signers: Sequence[AllowedSigner] | None) -> Claim:
    path = _folder(root, record) / ATTESTATION_FILE
    if not path.is_file() or _sha256(path) != record.evidence.attestation_sha256:
        what = "is not the file that the record names" if path.is_file() else "is not there"
        detail = f"{path.name} {what}"
        return Claim(what="attestation", state="contradicts", detail=detail, remedy=f"git log -p -- {path}")
    return _signed("attestation", path.read_bytes(), record, signers, origin=path.name)


def _signed(
    what: str, content: bytes, record: Record, signers: Sequence[AllowedSigner] | None, *, origin: str
) -> Claim:
    if signers is None:
        return _nobody(what)
    try:
        signed = verified(content, signers, release_id=record.id, served=record.served, origin=origin)
    except RefusedError as error:
        return Claim(what=what, state="contradicts", detail=error.message, remedy=error.remedy)
    except CannotDecideError as error:
        return Claim(what=what, state="unchecked", detail=error.message, remedy=error.remedy)
    detail = f"signed by {', '.join(signed.principals)} ({signed.statement.signed_by.key_id})"
    return Claim(what=what, state="agrees", detail=detail, signed=signed)


def _nobody(what: str) -> Claim:
    return Claim(
        what=what,
        state="unchecked",
        detail="nobody says whose signature counts",
        remedy="by a reviewed change, add policies/allowed_signers, or name a file with --signers",
    )


def _tag(root: Path, record: Record) -> Claim:
    name = f"{record.metadata.name}@v{record.metadata.version}"
    remedy = "git fetch --tags; if it was never made, modelctl publish makes it"
    try:
        git = Git.containing(root)
    except InputError:
        return Claim(what="tag", state="unchecked", detail=f"{root} is not in a git repository", remedy="git clone it")
    at = git.run("rev-parse", "--verify", "--quiet", f"refs/tags/{name}^{{commit}}", check=False).strip()
    if not at:
        return Claim(what="tag", state="unchecked", detail=f"there is no tag {name}", remedy=remedy)
    path = (_folder(root, record) / RECORD_FILE).resolve()
    inside = path.relative_to(git.root.resolve()).as_posix()
    if git.show(at, inside) != path.read_text(encoding="utf-8"):
        detail = f"{name} points at {at[:12]}, where the record is another"
        return Claim(what="tag", state="contradicts", detail=detail, remedy=f"modelctl audit {record.id} --verify")
    if record.served.tree_digest not in git.run("for-each-ref", "--format=%(contents)", f"refs/tags/{name}").split():
        detail = f"{name} does not name {record.served.tree_digest}"
        return Claim(what="tag", state="contradicts", detail=detail, remedy=f"git show {name}")
    return Claim(what="tag", state="agrees", detail=f"{name} at {at[:12]}")


def _folder(root: Path, record: Record) -> Path:
    return release_folder(root, record.metadata.name, record.metadata.version)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
