"""Is a release what it says: record, report, attestation, signature and tag name the same bytes, unchanged since, and
the rules of that day let it in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from modelctl.admission.model_signature import SIGNATURE_FILE
from modelctl.admission.names import SIGNERS_FILE
from modelctl.admission.policy import HistoryRules
from modelctl.admission.report import Report
from modelctl.audit.admitted import check_admission
from modelctl.audit.attested import Result, check_attestation, check_model_signature
from modelctl.audit.day import RuleDays
from modelctl.audit.history import History
from modelctl.audit.publications import Publication, record_at
from modelctl.audit.signatures import unsigned_commits, unsigned_tag
from modelctl.audit.tags import Tag
from modelctl.audit.violation import Violation
from modelctl.documents import parse_yaml, validate
from modelctl.errors import InputError
from modelctl.registry.dvc import POINTER_FILE
from modelctl.registry.names import ATTESTATION_FILE, RECORD_FILE, REPORT_FILE, RETIRED_FILE
from modelctl.registry.records import Record
from modelctl.registry.retired import Retired

RELEASE_FILE = "release.yaml"
READ = (RECORD_FILE, REPORT_FILE, ATTESTATION_FILE, SIGNATURE_FILE, POINTER_FILE, RETIRED_FILE, RELEASE_FILE)
"""The files of a record that are looked into at HEAD."""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What every release is held against."""

    history: History
    tags: Mapping[str, Tag]
    days: RuleDays


def check_publication(ground: Ground, publication: Publication) -> Iterator[Result]:
    """Every contradiction about one release at HEAD; a `Statement` when its signature was verified."""
    history = ground.history
    yield from _unchanged(history, publication)
    try:
        record = record_at(history, publication, history.head)
    except InputError as error:
        yield publication.violation("record-unreadable", error.message, RECORD_FILE)
        return
    if record is None:
        yield publication.violation("record-missing", "the record was removed from git", RECORD_FILE)
        return
    if record.id != publication.id:
        yield publication.violation("record-name", f"the record in this folder is of {record.id}", RECORD_FILE)
    if publication.commit.trailer("Model-Digest") not in (None, record.served.tree_digest):
        said = publication.commit.trailer("Model-Digest")
        message = f"published was {said}, the record says {record.served.tree_digest}"
        yield publication.violation("digest-published", message, RECORD_FILE)
    yield from _retired(history, publication, record)
    yield from _pointer(history, publication, record)
    yield from _tag(ground, publication, record)
    yield from _evidence(ground, publication, record)


def demanded(ground: Ground, publication: Publication, policy: str) -> HistoryRules | None:
    """What the policy of that day demanded of git itself; None when nothing, or when it can't be read."""
    try:
        return ground.days.at(publication.before).policy(policy).policy.spec.history
    except InputError:
        return None  # said where the report is held against the policy


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
                yield publication.violation("record-changed", message, Path(change.path).name, commit=commit.id)
    then, now = history.object_ids([(publication.commit.id, publication.folder), (history.head, publication.folder)])
    if changed or then == now:
        return
    published = history.listing(publication.commit.id, publication.folder)
    present = history.listing(history.head, publication.folder)
    if retirement is not None:
        present.pop(f"{publication.folder}/{RETIRED_FILE}", None)
    if published != present:
        message = f"{publication.folder} is not what was published, and no commit says why"
        yield publication.violation("record-changed", message, "", commit=history.head)


def _retired(history: History, publication: Publication, record: Record) -> Iterator[Violation]:
    path = f"{publication.folder}/{RETIRED_FILE}"
    content = history.content(history.head, path)
    if content is None:
        return
    try:
        retired = validate(parse_yaml(content.decode(errors="replace"), origin=path), Retired, origin=path)
    except InputError as error:
        yield publication.violation("retired-unreadable", error.message, RETIRED_FILE)
        return
    if (retired.metadata, retired.tree_digest) != (record.metadata, record.served.tree_digest):
        message = f"retired is {retired.tree_digest}, the record says {record.served.tree_digest}"
        yield publication.violation("retired-digest", message, RETIRED_FILE)


def _pointer(history: History, publication: Publication, record: Record) -> Iterator[Violation]:
    """DVC's pointer names the same bytes; releases of before there was one have none."""
    content = history.content(*publication.at(POINTER_FILE, history.head))
    if content is None:
        return
    try:
        body = parse_yaml(content.decode(errors="replace"), origin=POINTER_FILE)
        said = body["meta"]["modelctl"]["tree_digest"]
    except (InputError, KeyError, TypeError):
        said = None
    if said != record.served.tree_digest:
        message = f"{POINTER_FILE} names {said or 'no digest'}, the record {record.served.tree_digest}"
        yield publication.violation("digest-pointer", message, POINTER_FILE)


def _tag(ground: Ground, publication: Publication, record: Record) -> Iterator[Violation]:
    history = ground.history
    tag = ground.tags.get(publication.tag)
    if tag is None:
        yield publication.violation(
            "tag-missing",
            f"there is no tag {publication.tag}",
            None,
            remedy=f"git fetch --tags; if it was never made, modelctl publish {publication.id} makes it",
        )
        return
    published = history.object_id(publication.commit.id, publication.folder)
    if history.object_id(tag.commit, publication.folder) != published:
        message = f"tag {tag.name} points at {tag.commit[:12]}, where the record is not the published one"
        yield publication.violation("tag-moved", message, None, commit=tag.commit)
    if record.served.tree_digest not in tag.text.split():
        message = f"tag {tag.name} does not name {record.served.tree_digest}, the digest of the record"
        yield publication.violation("tag-digest", message, None, commit=tag.commit)
    yield from _signed_by_git(ground, publication, record, tag)


def _signed_by_git(ground: Ground, publication: Publication, record: Record, tag: Tag) -> Iterator[Violation]:
    rules = demanded(ground, publication, record.policy.name)
    if rules is None:
        return
    signers = ground.days.at(publication.before).signers_text
    commit = publication.commit.id
    remedy = (
        f"ask who made it (git show {commit[:12]}), and whether that was allowed; sign with a key of {SIGNERS_FILE}: "
        "git config gpg.format ssh, user.signingkey, commit.gpgSign and tag.gpgSign"
    )
    if rules.tags == "signed" and (why := unsigned_tag(ground.history.git, tag, signers)):
        message = f"the policy '{record.policy.name}' wants signed tags; {tag.name}: {why}"
        yield publication.violation("tag-unsigned", message, None, commit=tag.commit, remedy=remedy)
    if rules.commits == "signed":
        for unsigned, why in unsigned_commits(ground.history.git, [commit], signers).items():
            message = f"the policy '{record.policy.name}' wants signed commits; {unsigned[:12]}: {why}"
            yield publication.violation("commit-unsigned", message, None, commit=unsigned, remedy=remedy)


def _evidence(ground: Ground, publication: Publication, record: Record) -> Iterator[Result]:
    history = ground.history
    files = record.evidence.files
    found = history.contents([publication.at(name, history.head) for name in files])
    contents = dict(zip(files, found, strict=True))
    for name, sha256 in files.items():
        content = contents[name]
        if content is None:
            yield publication.violation("evidence-missing", f"{name} is not in git", name)
        elif hashlib.sha256(content).hexdigest() != sha256:
            message = f"{name} is not the file that the record names (sha256 {sha256[:12]}…)"
            yield publication.violation("evidence-changed", message, name)
    report = None
    if (text := contents[REPORT_FILE]) is not None:
        try:
            report = Report.from_json(text.decode(errors="replace"), origin=REPORT_FILE)
        except InputError as error:
            yield publication.violation("report-unreadable", error.message, REPORT_FILE)
    if report is not None:
        yield from _report(history, publication, record, report)
    if (attestation := contents[ATTESTATION_FILE]) is not None:
        yield from check_attestation(ground.days, publication, record, report, attestation)
    signature = history.content(*publication.at(SIGNATURE_FILE, history.head))  # also one that the record does not name
    if signature is not None:
        yield from check_model_signature(ground.days, publication, record, signature)
    if report is not None and report.verdict == "admitted" and not report.partial:
        yield from check_admission(publication, record, report, ground.days.at(publication.before))


def _report(history: History, publication: Publication, record: Record, report: Report) -> Iterator[Violation]:
    if report.verdict != "admitted" or report.partial:
        message = f"published, though its report says {'partial, ' if report.partial else ''}{report.verdict}"
        yield publication.violation("not-admitted", message, REPORT_FILE)
    pairs = (
        ("served tree", report.model.served_digest, record.served.tree_digest),
        ("source tree", report.model.source_digest, record.source.tree_digest),
        ("policy", report.policy.digest, record.policy.digest),
        ("release", report.model.release, publication.id),
    )
    for what, said, recorded in pairs:
        if said != recorded:
            message = f"{what}: the report judged {said}, the record says {recorded}"
            yield publication.violation("digest-admitted", message, REPORT_FILE)
    proposal = history.content(*publication.at(RELEASE_FILE, history.head))
    if proposal is None:
        yield publication.violation("proposal-missing", "no release.yaml says what was asked for", RELEASE_FILE)
    elif report.model.release_sha256 not in (None, hashlib.sha256(proposal).hexdigest()):
        message = "release.yaml is not the one that the report judged"
        yield publication.violation("proposal-changed", message, RELEASE_FILE)
