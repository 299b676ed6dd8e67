"""Is a release what it says: record, report, attestation, signature and tag name the same bytes, unchanged since."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelctl.admission.attestation import Envelope, Statement, verify
from modelctl.admission.report import Report
from modelctl.admission.signers import SIGNERS_FILE, load_allowed_signers
from modelctl.audit.history import Commit, History
from modelctl.audit.violation import Unverified, Violation
from modelctl.documents import parse_yaml, validate
from modelctl.errors import InputError, RefusedError
from modelctl.registry.publish import tag_name
from modelctl.registry.records import ATTESTATION_FILE, RECORD_FILE, REPORT_FILE, Record
from modelctl.registry.retired import RETIRED_FILE, RETIRED_TRAILER, Retired

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


@dataclass(frozen=True, kw_only=True)
class Publication:
    """A release and the commit that published it."""

    name: str
    version: str
    commit: Commit
    later: tuple[Commit, ...]
    """Commits that touched the release's folder afterwards."""

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    @property
    def folder(self) -> str:
        """The record's folder, relative to the root."""
        return f"registry/{self.name}/{self.version}"

    @property
    def retirement(self) -> Commit | None:
        """The commit that gave up the release's bytes: it adds `retired.yaml` alone, and says so in its trailer."""
        for commit in self.later:
            changes = [change for change in commit.changes if change.path.startswith(f"{self.folder}/")]
            if (
                commit.trailer(RETIRED_TRAILER) == self.id
                and [change.path for change in changes] == [f"{self.folder}/{RETIRED_FILE}"]
                and changes[0].added
            ):
                return commit
        return None


def publications(history: History) -> dict[str, Publication]:
    """Every release that was ever published, by `name@version`."""
    made: dict[str, Commit] = {}
    later: dict[str, list[Commit]] = {}
    for commit in history.commits:
        parts = [change.path.split("/", 3) for change in commit.changes if change.path.startswith("registry/")]
        touched = {f"{part[1]}@{part[2]}" for part in parts if len(part) == 4}
        for release in touched & made.keys():
            later[release].append(commit)
        for change in commit.changes:
            _, *rest = change.path.split("/")
            if change.path.startswith("registry/") and rest[2:] == [RECORD_FILE] and not change.deleted:
                release = f"{rest[0]}@{rest[1]}"
                if release not in made:
                    made[release] = commit
                    later[release] = []
    return {
        release: Publication(
            name=release.partition("@")[0],
            version=release.partition("@")[2],
            commit=commit,
            later=tuple(later[release]),
        )
        for release, commit in made.items()
    }


def record_at(history: History, publication: Publication, commit: str) -> Record | None:
    """The record at a commit; None when it is not there. Raises `InputError` for a malformed one."""
    path = f"{publication.folder}/{RECORD_FILE}"
    content = history.content(commit, path)
    if content is None:
        return None
    return validate(parse_yaml(content.decode(errors="replace"), origin=path), Record, origin=path)


def check_publication(history: History, publication: Publication) -> Iterator[Violation | Unverified | Statement]:
    """Every contradiction about one release at HEAD; a `Statement` when its signature was verified."""
    yield from _unchanged(history, publication)
    try:
        record = record_at(history, publication, history.head)
    except InputError as error:
        yield _violation(publication, "record-unreadable", error.message, RECORD_FILE)
        return
    if record is None:
        yield _violation(publication, "record-missing", "the record was removed from git", RECORD_FILE)
        return
    if record.id != publication.id:
        yield _violation(publication, "record-name", f"the record in this folder is of {record.id}", RECORD_FILE)
    if publication.commit.trailer("Model-Digest") not in (None, record.served.tree_digest):
        said = publication.commit.trailer("Model-Digest")
        message = f"published was {said}, the record says {record.served.tree_digest}"
        yield _violation(publication, "digest-published", message, RECORD_FILE)
    yield from _retired(history, publication, record)
    yield from _tag(history, publication, record)
    yield from _evidence(history, publication, record)


def _unchanged(history: History, publication: Publication) -> Iterator[Violation]:
    changed = False
    retirement = publication.retirement
    for commit in publication.later:
        if commit == retirement:
            continue
        for change in commit.changes:
            if change.path.startswith(f"{publication.folder}/"):
                changed = True
                message = f"{change.path} was changed after the publication ({change.status}), by {commit.author}"
                yield _violation(publication, "record-changed", message, Path(change.path).name, commit=commit.id)
    published = history.listing(publication.commit.id, publication.folder)
    present = history.listing(history.head, publication.folder)
    if retirement is not None:
        present.pop(f"{publication.folder}/{RETIRED_FILE}", None)
    if not changed and published != present:
        message = f"{publication.folder} is not what was published, and no commit says why"
        yield _violation(publication, "record-changed", message, "", commit=history.head)


def _retired(history: History, publication: Publication, record: Record) -> Iterator[Violation]:
    path = f"{publication.folder}/{RETIRED_FILE}"
    content = history.content(history.head, path)
    if content is None:
        return
    try:
        retired = validate(parse_yaml(content.decode(errors="replace"), origin=path), Retired, origin=path)
    except InputError as error:
        yield _violation(publication, "retired-unreadable", error.message, RETIRED_FILE)
        return
    if (retired.metadata, retired.tree_digest) != (record.metadata, record.served.tree_digest):
        message = f"retired is {retired.tree_digest}, the record says {record.served.tree_digest}"
        yield _violation(publication, "retired-digest", message, RETIRED_FILE)


def _tag(history: History, publication: Publication, record: Record) -> Iterator[Violation]:
    tag = f"refs/tags/{tag_name(publication.name, publication.version)}"
    shown = tag.removeprefix("refs/tags/")
    at = history.git.run("rev-parse", "--verify", "--quiet", f"{tag}^{{commit}}", check=False).strip()
    if not at:
        yield _violation(
            publication,
            "tag-missing",
            f"there is no tag {shown}",
            None,
            remedy=f"git fetch --tags; if it was never made, modelctl publish {publication.id} makes it",
        )
        return
    published = history.object_id(publication.commit.id, publication.folder)
    if history.object_id(at, publication.folder) != published:
        message = f"tag {shown} points at {at[:12]}, where the record is not the published one"
        yield _violation(publication, "tag-moved", message, None, commit=at)
    said = history.git.run("for-each-ref", "--format=%(contents)", tag)
    if record.served.tree_digest not in said.split():
        message = f"tag {shown} does not name {record.served.tree_digest}, the digest of the record"
        yield _violation(publication, "tag-digest", message, None, commit=at)


def _evidence(
    history: History, publication: Publication, record: Record
) -> Iterator[Violation | Unverified | Statement]:
    names = (REPORT_FILE, ATTESTATION_FILE)
    contents = history.contents([(history.head, f"{publication.folder}/{name}") for name in names])
    wanted = (record.evidence.report_sha256, record.evidence.attestation_sha256)
    for name, content, sha256 in zip(names, contents, wanted, strict=True):
        if content is None:
            yield _violation(publication, "evidence-missing", f"{name} is not in git", name)
        elif hashlib.sha256(content).hexdigest() != sha256:
            message = f"{name} is not the file that the record names (sha256 {sha256[:12]}…)"
            yield _violation(publication, "evidence-changed", message, name)
    report_text, attestation = contents
    report = None
    if report_text is not None:
        try:
            report = Report.from_json(report_text.decode(errors="replace"), origin=REPORT_FILE)
        except InputError as error:
            yield _violation(publication, "report-unreadable", error.message, REPORT_FILE)
    if report is not None:
        yield from _report(publication, record, report)
    if attestation is not None:
        yield from _signature(history, publication, record, report, attestation)


def _report(publication: Publication, record: Record, report: Report) -> Iterator[Violation]:
    if report.verdict != "admitted" or report.partial:
        message = f"published, though its report says {'partial, ' if report.partial else ''}{report.verdict}"
        yield _violation(publication, "not-admitted", message, REPORT_FILE)
    pairs = (
        ("served tree", report.model.served_digest, record.served.tree_digest),
        ("source tree", report.model.source_digest, record.source.tree_digest),
        ("policy", report.policy.digest, record.policy.digest),
        ("release", report.model.release, publication.id),
    )
    for what, said, recorded in pairs:
        if said != recorded:
            message = f"{what}: the report judged {said}, the record says {recorded}"
            yield _violation(publication, "digest-admitted", message, REPORT_FILE)


def _signature(
    history: History, publication: Publication, record: Record, report: Report | None, attestation: bytes
) -> Iterator[Violation | Unverified | Statement]:
    # The signers of the day before: a commit can't bring its own signer along.
    before = publication.commit.parents[0] if publication.commit.parents else publication.commit.id
    signers = history.content(before, SIGNERS_FILE.as_posix())
    if signers is None:
        yield Unverified(
            release=publication.id,
            reason=f"no {SIGNERS_FILE} before the publication, so nobody says whose signature counts",
            remedy=f"by a reviewed change, add {SIGNERS_FILE}; later publications are verified against it",
        )
        return
    try:
        keys = _keys(signers)
        envelope = Envelope.from_json(attestation.decode(errors="replace"), origin=ATTESTATION_FILE)
        statement = verify(envelope, keys)
    except (RefusedError, InputError) as error:
        yield _violation(publication, "signature", error.message, ATTESTATION_FILE)
        return
    if statement.served.digest != record.served.tree_digest:
        message = f"signed was {statement.served.digest}, the record says {record.served.tree_digest}"
        yield _violation(publication, "digest-signed", message, ATTESTATION_FILE)
    elif report is not None and statement.report != report:
        yield _violation(publication, "report-signed", f"{REPORT_FILE} is not the signed report", REPORT_FILE)
    else:
        yield statement


def _keys(text: bytes) -> list[Ed25519PublicKey]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, SIGNERS_FILE.name)
        path.write_bytes(text)
        return [signer.key for signer in load_allowed_signers(path)]


def _violation(
    publication: Publication,
    rule: str,
    message: str,
    file: str | None,
    *,
    commit: str | None = None,
    remedy: str | None = None,
) -> Violation:
    return Violation(
        rule=f"audit.{rule}",
        message=message,
        remedy=remedy
        or (
            f"git log -p {publication.commit.id[:12]}.. -- {publication.folder} shows who changed what; "
            "restore what was published by a reviewed commit, and release changes under a new version"
        ),
        commit=commit or (publication.later[-1] if publication.later else publication.commit).id,
        path=f"{publication.folder}/{file}".rstrip("/") if file is not None else None,
        release=publication.id,
    )
