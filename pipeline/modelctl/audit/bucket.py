"""Does the bucket hold what git says: manifests, attestations, the objects' names, sizes and announced hashes.

Nothing of it is remembered, since a bucket has no object ids. Bytes are read by `modelctl verify NAME@VERSION --full`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from modelctl.audit.day import RuleDays
from modelctl.audit.history import History
from modelctl.audit.publications import Publication, record_at
from modelctl.audit.violation import Unverified, Violation
from modelctl.errors import InputError
from modelctl.registry.claims import claims_in_bucket
from modelctl.registry.manifest import MANIFESTS
from modelctl.registry.names import RECORD_FILE, RETIRED_FILE
from modelctl.registry.records import Record
from modelctl.registry.store import ObjectStore
from modelctl.registry.verify_bucket import verify_bucket

WORKERS = 4
_REMEDY = (
    "someone wrote to the bucket past modelctl: restore the objects (modelctl publish sends what is missing), and "
    "check who may write there"
)


def check_bucket(
    history: History, store: ObjectStore, chosen: Sequence[Publication], days: RuleDays, *, whole: bool
) -> Iterator[Violation | Unverified]:
    """Every contradiction between the bucket and the records at HEAD. Raises `StoreError`."""
    gone = history.object_ids([item.at(RETIRED_FILE, history.head) for item in chosen])
    kept = [item for item, retired in zip(chosen, gone, strict=True) if retired is None]
    history.hold([item.at(RECORD_FILE, history.head) for item in kept])
    records = {item.id: _record(history, item) for item in kept}
    for item in kept:
        days.at(item.before)
    with ThreadPoolExecutor(WORKERS) as pool:
        for found in pool.map(lambda item: list(_release(store, item, records[item.id], days)), kept):
            yield from found
    if whole:
        yield from _strangers(store, {item.id: item for item in chosen})


def _record(history: History, publication: Publication) -> Record | None:
    try:
        return record_at(history, publication, history.head)
    except InputError:
        return None  # said where the release is checked


def _release(
    store: ObjectStore, publication: Publication, record: Record | None, days: RuleDays
) -> Iterator[Violation | Unverified]:
    if record is None:
        return
    try:
        signers = days.at(publication.before).signers
    except InputError:
        signers = None  # said where the attestation is verified
    for claim in claims_in_bucket(store, record, signers):
        rule = "bucket-manifest" if claim.what == "manifest" else "bucket-attestation"
        if claim.state == "contradicts":
            yield publication.violation(rule, f"{claim.what}: {claim.detail}", None, remedy=claim.remedy or _REMEDY)
        elif claim.state == "unchecked":
            reason = f"{claim.what}: {claim.detail}"
            yield Unverified(release=publication.id, reason=reason, remedy=claim.remedy or _REMEDY)
    found = verify_bucket(store, record.served)
    if not found.whole:
        differ = found.differences()
        more = f" and {len(differ) - 3} more" if len(differ) > 3 else ""
        yield publication.violation("bucket-bytes", f"{found.uri}: {'; '.join(differ[:3])}{more}", None, remedy=_REMEDY)


def _strangers(store: ObjectStore, known: Mapping[str, Publication]) -> Iterator[Violation]:
    for key in sorted(store.sizes(MANIFESTS)):
        name, _, version = key.removeprefix(MANIFESTS).removesuffix(".json").partition("/")
        if f"{name}@{version}" not in known:
            yield Violation(
                rule="audit.bucket-unknown",
                message=f"{store.place} holds {name}@{version}, which no commit of this history published",
                remedy=f"fetch what is missing (git fetch --tags), else remove {key} and find out who wrote it",
                commit=None,
                release=f"{name}@{version}",
            )
