"""Why a bucket's list of files may be believed, decided before the first of them is fetched.

The manifest has to name the bytes that the record in git, the digest of a deployment and the signed attestation name,
each where it is at hand. A signature counts when an allowed signer made it over exactly these files of this release.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from modelctl.admission.attestation import Statement, verify
from modelctl.admission.dsse import Envelope
from modelctl.admission.keyless import LogEntry, log_entry
from modelctl.admission.names import SIGNERS_FILE
from modelctl.admission.policy_files import FolderFiles
from modelctl.admission.signers import AllowedSigner, load_allowed_signers, repository_signers
from modelctl.errors import CannotDecideError, InputError, RefusedError
from modelctl.model.release import release_folder
from modelctl.registry.manifest import Manifest, Served, attestation_key, manifest_key
from modelctl.registry.names import ATTESTATION_FILE
from modelctl.registry.records import Record
from modelctl.registry.store import ObjectStore

_TAMPERED = "someone wrote to the bucket past modelctl: restore the manifest, and check who may write there"


@dataclass(frozen=True, kw_only=True)
class Signed:
    """An attestation whose signature was verified."""

    statement: Statement
    principals: tuple[str, ...]
    """Whose key it is, as the list of signers says."""
    kind: str
    """Of the key: `ECDSA P-256`."""
    logged: LogEntry | None = None
    """What sigstore's log says of a keyless signature; None for a key's."""


@dataclass(frozen=True, kw_only=True)
class Trusted:
    """A release's list of files, and what stands behind it."""

    served: Served
    published_at: str
    record: bool
    """The record in git names the same bytes."""
    digest: bool
    """The digest that was given is that of these bytes."""
    signed: Signed | None

    def grounds(self) -> tuple[str, ...]:
        """What the list was held against, for a person; empty when only the bucket itself says so."""
        found = []
        if self.signed is not None:
            found.append(f"the attestation that {', '.join(self.signed.principals)} signed")
        if self.record:
            found.append("the record in git")
        if self.digest:
            found.append("the digest given")
        return tuple(found)


def trusted(
    store: ObjectStore,
    name: str,
    version: str,
    *,
    root: Path | None = None,
    record: Record | None = None,
    digest: str | None = None,
    signers: Sequence[AllowedSigner] | None = None,
) -> Trusted:
    """Read a release's manifest and hold it against everything that is at hand.

    `root`: the registry repository of `record`, whose attestation is taken; else the bucket's. `signers`: who may sign;
    None leaves the signature unverified. Raises `InputError` (no such release), `RefusedError` (contradictions, a
    signature of nobody allowed), `CannotDecideError` (signers but no attestation), `StoreError`.
    """
    release_id = f"{name}@{version}"
    if digest is not None and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise InputError(f"'{digest}' is no tree digest", remedy="write --digest sha256: and 64 hex digits")
    content = store.read(manifest_key(name, version))
    if content is None:
        raise InputError(
            f"{release_id} is not in {store.place}: it has no manifest there",
            remedy="modelctl list shows what is published; check store.bucket (modelctl config show)",
        )
    manifest = Manifest.from_json(content, name=name, version=version)
    served = manifest.served
    recorded = record.served.tree_digest if record else None
    if recorded not in (None, served.tree_digest):
        raise RefusedError(
            f"the bucket's manifest of {release_id} names {served.tree_digest}, the record in git {recorded}",
            remedy=_TAMPERED,
        )
    if digest not in (None, served.tree_digest):
        agreed = "the record in git and the bucket's manifest say" if recorded else "the bucket's manifest says"
        raise RefusedError(
            f"{agreed} that {release_id} is {served.tree_digest}, and --digest is {digest}",
            remedy="find out whose digest that is"
            + (f": modelctl show {release_id}" if recorded else ", or who wrote to the bucket past modelctl"),
        )
    signed = None
    if signers is not None:
        text, origin = _attestation(store, name, version, root=root, record=record)
        signed = verified(text, signers, release_id=release_id, served=served, origin=origin)
    return Trusted(
        served=served,
        published_at=manifest.published_at,
        record=record is not None,
        digest=digest is not None,
        signed=signed,
    )


def verified(text: bytes, signers: Sequence[AllowedSigner], *, release_id: str, served: Served, origin: str) -> Signed:
    """The attestation's statement, when an allowed signer made it about exactly these files of this release.

    Raises `RefusedError` otherwise.
    """
    try:
        envelope = Envelope.from_json(text.decode(errors="replace"), origin=origin)
    except InputError as error:
        raise RefusedError(error.message, remedy=f"modelctl audit {release_id} --verify") from error
    statement = verify(envelope, [signer.verifier for signer in signers])
    report = statement.report
    if report.model.release != release_id:
        raise RefusedError(f"{origin} is the attestation of {report.model.release}, wanted that of {release_id}")
    if statement.served.digest != served.tree_digest:
        raise RefusedError(
            f"{origin}: signed are the files of {statement.served.digest}, the manifest names {served.tree_digest}",
            remedy=_TAMPERED,
        )
    if report.verdict != "admitted" or report.partial:
        raise RefusedError(f"{origin}: the signed report says {'partial, ' if report.partial else ''}{report.verdict}")
    signer = next(signer for signer in signers if signer.verifier.name == statement.signed_by.name)
    logged = log_entry(envelope) if signer.key_id is None else None
    return Signed(statement=statement, principals=signer.principals, kind=signer.verifier.kind, logged=logged)


def signers_of(root: Path, named: Path | None = None) -> tuple[AllowedSigner, ...] | None:
    """Who may sign: the file named, else those that the registry repository lists; None when there is neither.

    Raises `InputError` for a file that is missing, malformed or allows nobody.
    """
    found = repository_signers(FolderFiles(root)) if named is None else load_allowed_signers(named)
    if found is not None and not found:
        raise InputError(
            f"{named or root / SIGNERS_FILE}: names no Ed25519 or ECDSA key and no keyless signer, so nobody may sign",
            remedy="add a line: NAME and the text of KEY.pub",
        )
    return found


def _attestation(
    store: ObjectStore, name: str, version: str, *, root: Path | None, record: Record | None
) -> tuple[bytes, str]:
    if root is not None and record is not None:
        path = release_folder(root, name, version) / ATTESTATION_FILE
        if not path.is_file():
            raise RefusedError(f"{path}: the record names an attestation, and it is gone", remedy=f"git log -- {path}")
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != record.evidence.attestation_sha256:
            raise RefusedError(f"{path} is not the file that the record names", remedy=f"git log -p -- {path}")
        return content, str(path)
    key = attestation_key(name, version)
    found = store.read(key)
    if found is None:
        raise CannotDecideError(
            f"{name}@{version}: {store.place} holds no attestation of it ({key}), so its signature can't be verified",
            remedy=f"modelctl publish {name}@{version} puts it there",
        )
    return found, key
