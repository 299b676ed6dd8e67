"""Every claim that git holds about releases, checked against every other, at HEAD; the bucket's too where asked.

What agreed in an earlier run and follows from the same objects is not looked at again (`memory`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from modelctl.admission.attestation import Statement
from modelctl.audit.attested import Result
from modelctl.audit.bucket import check_bucket
from modelctl.audit.checkpoints import check_checkpoints, check_included
from modelctl.audit.day import RuleDays
from modelctl.audit.deployments import Deployments, check_allowed, check_tags, deployed
from modelctl.audit.history import History, Place, read_history
from modelctl.audit.memory import Memory, key_of
from modelctl.audit.publications import Publication, digest_of, publications, published
from modelctl.audit.releases import READ, Ground, check_publication
from modelctl.audit.tags import Tag, read_tags
from modelctl.audit.violation import Unverified, Verification, Violation
from modelctl.registry.names import RECORD_FILE
from modelctl.registry.store import ObjectStore

AT_ONCE = 64
"""Releases whose files are held in memory together."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is verified. `name`, `version` and `env` narrow the view."""

    name: str | None = None
    version: str | None = None
    env: str | None = None
    store: ObjectStore | None = None
    """The bucket that is held against git; None leaves it out."""
    includes: tuple[str, ...] = ()
    """Commits, noted at another time, that history must still hold."""

    @property
    def whole(self) -> bool:
        """Whether nothing is left out."""
        return self.name is None and self.env is None


def verify(
    root: Path,
    *,
    name: str | None = None,
    version: str | None = None,
    env: str | None = None,
    store: ObjectStore | None = None,
    includes: Sequence[str] = (),
    remember: bool = False,
) -> Verification:
    """Verify the releases and deployments of a registry repository; `name`, `version` and `env` narrow the view.

    Only what is committed counts. `store`: the bucket to hold against git; `includes`: commits that history must still
    hold; `remember`: go by what earlier runs found in this clone, and keep what this one finds. Raises `InputError`
    outside a git repository, `GitError`, and `StoreError` with a store.
    """
    asked = Asked(name=name, version=version, env=env, store=store, includes=tuple(includes))
    history = read_history(root)
    return verify_history(history, asked, Memory.of(history) if remember else None)


def verify_history(history: History, asked: Asked, memory: Memory | None = None) -> Verification:
    """The same of a history that has been read already; without a memory all is looked at."""
    known = publications(history)
    chosen = [
        item for item in known.values() if asked.name in (None, item.name) and asked.version in (None, item.version)
    ]
    places = [place for place in deployed(history, env=asked.env) if asked.name in (None, place[1])]
    memory = memory or Memory(None)
    ground = Ground(history=history, tags=read_tags(history.git), days=RuleDays(history))
    results = [
        *_coverage(history, len(chosen) + len(places)),
        *check_included(history, asked.includes),
        *_releases(ground, chosen, memory),
    ]
    if asked.whole:
        results += check_checkpoints(history, list(known.values()), ground.days, memory)
        results += check_tags(ground.tags, known)
    released = dict(published(history, known, _digests(history, known, memory)))
    deployments = Deployments(history=history, published=released, days=ground.days, memory=memory)
    for environment, folder in places:
        results += deployments.check(environment, folder)
    if asked.whole:
        results += check_allowed(history, released)
    if asked.store is not None:
        results += check_bucket(history, asked.store, chosen, ground.days, whole=asked.whole)
    kept = memory.save(whole=asked.whole)
    return Verification(
        head=history.head,
        releases=len(chosen),
        deployments=len(places),
        signatures=sum(isinstance(result, Statement) for result in results) + memory.recalled,
        recalled=memory.recalled,
        bucket=asked.store is not None,
        notes=() if kept else ("what was verified can't be kept in git's folder, so the next run starts afresh",),
        violations=tuple(result for result in results if isinstance(result, Violation)),
        unverified=tuple(result for result in results if isinstance(result, Unverified)),
    )


def _releases(ground: Ground, chosen: list[Publication], memory: Memory) -> Iterator[Result]:
    history = ground.history
    ground.days.prepare(item.before for item in chosen)
    places = [place for item in chosen for place in _folders(ground, item)]
    history.object_ids([*places, *((tag.commit, item.folder) for item in chosen if (tag := _tag(ground, item)))])
    keys = {item.id: _key(ground, item) for item in chosen}
    new = [item for item in chosen if not memory.recall(keys[item.id])]
    for start in range(0, len(new), AT_ONCE):
        batch = new[start : start + AT_ONCE]
        history.hold([item.at(name, history.head) for item in batch for name in READ])
        for item in batch:
            found = list(check_publication(ground, item))
            yield from found
            if found and all(isinstance(result, Statement) for result in found):
                memory.keep(keys[item.id])


def _key(ground: Ground, item: Publication) -> str:
    """Everything that `check_publication` follows from."""
    tag = _tag(ground, item)
    return key_of(
        *("release", item.id, item.commit.id, [commit.id for commit in item.later]),
        ground.history.object_ids(_folders(ground, item)),
        tag and (tag.object, tag.commit),
        ground.days.state(item.before),
    )


def _folders(ground: Ground, item: Publication) -> list[Place]:
    return [(item.commit.id, item.folder), (ground.history.head, item.folder)]


def _tag(ground: Ground, item: Publication) -> Tag | None:
    return ground.tags.get(item.tag)


def _digests(history: History, known: dict[str, Publication], memory: Memory) -> dict[str, str | None]:
    """The served tree's digest of each record at HEAD; None for one that is malformed or gone."""
    blobs = history.object_ids([item.at(RECORD_FILE, history.head) for item in known.values()])
    there = [(item, blob) for item, blob in zip(known.values(), blobs, strict=True) if blob]
    found: dict[str, str | None] = {}
    for start in range(0, len(there), AT_ONCE):
        batch = there[start : start + AT_ONCE]
        history.hold([item.at(RECORD_FILE, history.head) for item, blob in batch if not memory.holds(f"record:{blob}")])
        for item, blob in batch:
            place = item.at(RECORD_FILE, history.head)
            found[item.id] = memory.get(f"record:{blob}", partial(_digest, history, place))
    return found


def _digest(history: History, place: Place) -> str | None:
    return digest_of(history.content(*place) or b"", place[1])


def _coverage(history: History, looked_at: int) -> Iterator[Unverified]:
    if history.shallow:
        yield Unverified(
            reason="this clone is shallow: older commits are missing, and with them what they changed",
            remedy="git fetch --unshallow --tags",
        )
    if not looked_at:
        yield Unverified(
            reason="nothing was verified: git holds no published release and no deployment that was asked for",
            remedy="modelctl list shows what is published",
        )
