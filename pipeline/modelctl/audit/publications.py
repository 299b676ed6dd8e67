"""Every release that was ever published: the commit that did it, what touched it since, and what its record says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from modelctl.audit.history import History, Place
from modelctl.audit.log import Commit
from modelctl.audit.violation import Violation
from modelctl.documents import parse_yaml, validate
from modelctl.errors import InputError
from modelctl.registry.names import RECORD_FILE, RETIRED_FILE, RETIRED_TRAILER
from modelctl.registry.records import Record
from modelctl.registry.versions import tag_name


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
    def before(self) -> str:
        """The commit whose rules judged it: the one before, since a commit can't bring its own rules along."""
        return self.commit.parents[0] if self.commit.parents else self.commit.id

    @property
    def tag(self) -> str:
        """Its tag's name."""
        return tag_name(self.name, self.version)

    def at(self, file: str, commit: str | None = None) -> Place:
        """A file of its folder at a commit, without one at its publication."""
        return commit or self.commit.id, f"{self.folder}/{file}"

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

    def violation(
        self, rule: str, message: str, file: str | None, *, commit: str | None = None, remedy: str | None = None
    ) -> Violation:
        """A contradiction about this release."""
        return Violation(
            rule=f"audit.{rule}",
            message=message,
            remedy=remedy
            or (
                f"git log -p {self.commit.id[:12]}.. -- {self.folder} shows who changed what; "
                "restore what was published by a reviewed commit, and release changes under a new version"
            ),
            commit=commit or (self.later[-1] if self.later else self.commit).id,
            path=f"{self.folder}/{file}".rstrip("/") if file is not None else None,
            release=self.id,
        )


def publications(history: History) -> dict[str, Publication]:
    """Every release that was ever published, by `name@version`."""
    made: dict[str, Commit] = {}
    later: dict[str, list[Commit]] = {}
    for commit in history.commits:
        touched: dict[str, bool] = {}
        for change in commit.changes:
            parts = change.path.split("/", 3)
            if len(parts) == 4 and parts[0] == "registry":
                release = f"{parts[1]}@{parts[2]}"
                recorded = parts[3] == RECORD_FILE and not change.deleted
                touched[release] = touched.get(release, False) or recorded
        for release, recorded in touched.items():
            if release in made:
                later[release].append(commit)
            elif recorded:
                made[release] = commit
                later[release] = []
    return {release: _publication(release, commit, later[release]) for release, commit in made.items()}


def record_at(history: History, publication: Publication, commit: str) -> Record | None:
    """The record at a commit; None when it is not there. Raises `InputError` for a malformed one."""
    path = f"{publication.folder}/{RECORD_FILE}"
    content = history.content(commit, path)
    if content is None:
        return None
    return validate(parse_yaml(content.decode(errors="replace"), origin=path), Record, origin=path)


@dataclass(frozen=True, kw_only=True)
class Published:
    """What the record of a release says at HEAD, and the commit that made it."""

    digest: str
    commit: str
    retired: bool = False
    """Its bytes were given up."""


def _publication(release: str, commit: Commit, later: list[Commit]) -> Publication:
    name, _, version = release.partition("@")
    return Publication(name=name, version=version, commit=commit, later=tuple(later))


def published(
    history: History, known: dict[str, Publication], digests: dict[str, str | None]
) -> Iterator[tuple[str, Published]]:
    """What is published at HEAD; `digests` has the served tree of each record there, None for one that is malformed."""
    items = [item for item in known.values() if digests.get(item.id) is not None]
    retired = history.object_ids([item.at(RETIRED_FILE, history.head) for item in items])
    for item, gone in zip(items, retired, strict=True):
        yield item.id, Published(digest=digests[item.id] or "", commit=item.commit.id, retired=gone is not None)


def digest_of(content: bytes, origin: str) -> str | None:
    """The served tree's digest in a record's bytes; None for a malformed one."""
    try:
        record = validate(parse_yaml(content.decode(errors="replace"), origin=origin), Record, origin=origin)
    except InputError:
        return None  # said where the release is checked; a deployment of it counts as unpublished
    return record.served.tree_digest
