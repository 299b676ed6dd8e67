"""Is what runs what was published: annotations, init container, trailers and the cluster's list match the record, and
where the policy demands it whoever changed what is served has signed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from modelctl.audit.claims import Claim, what_it_says
from modelctl.audit.day import RuleDays
from modelctl.audit.history import History
from modelctl.audit.log import Commit, FileChange
from modelctl.audit.memory import Memory, key_of
from modelctl.audit.publications import Publication, Published
from modelctl.audit.signatures import unsigned_commits
from modelctl.audit.tags import Tag
from modelctl.audit.violation import Violation
from modelctl.errors import InputError
from modelctl.model.release import NAME_PATTERN, VERSION_PATTERN
from modelctl.rollout.published import parse_published
from modelctl.rollout.words import (
    DIGEST_TRAILER,
    ENVIRONMENT_TRAILER,
    PUBLISHED_FILE,
    RELEASE_TRAILER,
    ROLLOUT_FILE,
)


def deployed(history: History, *, env: str | None = None) -> tuple[tuple[str, str], ...]:
    """(environment, name) of every release folder at HEAD."""
    found = []
    for path in history.paths(history.head, "gitops"):
        parts = path.split("/")
        if parts[:2] == ["gitops", "environments"] and len(parts) == 5 and parts[4] == ROLLOUT_FILE:
            found.append((parts[2], parts[3]))
    return tuple(item for item in found if env in (None, item[0]))


@dataclass(frozen=True, kw_only=True)
class Deployments:
    """What release folders are held against."""

    history: History
    published: Mapping[str, Published]
    days: RuleDays
    memory: Memory

    def check(self, environment: str, name: str) -> Iterator[Violation]:
        """Every contradiction about one release folder: at HEAD, and in each commit that changed what it serves."""
        path = f"gitops/environments/{environment}/{name}/{ROLLOUT_FILE}"
        commits = self._touching.get(path, ())
        blobs = [change.blob or "" for _, change in commits]
        now = self.history.object_id(self.history.head, path) or ""
        claims = self._claims(environment, name, [*blobs, now])
        before: Claim | None = None
        moved = []
        for (commit, _), claim in zip(commits, claims, strict=False):
            yield from _commit(self.history, commit, claim, before, self.published)
            if before is None or (before.release, before.digest) != (claim.release, claim.digest):
                moved.append(commit)
            before = claim
        yield from self._unsigned(claims[-1], moved)
        last = commits[-1][0].id if commits else None
        yield from _head(claims[-1], last, self.published)

    @cached_property
    def _touching(self) -> Mapping[str, list[tuple[Commit, FileChange]]]:
        """The commits that wrote each Rollout manifest."""
        found: dict[str, list[tuple[Commit, FileChange]]] = {}
        for commit in self.history.commits:
            for change in commit.changes:
                if change.path.endswith(f"/{ROLLOUT_FILE}") and not change.deleted:
                    found.setdefault(change.path, []).append((commit, change))
        return found

    def _claims(self, environment: str, name: str, blobs: Sequence[str]) -> list[Claim]:
        new = [blob for blob in dict.fromkeys(blobs) if blob and not self.memory.holds(f"claim:{blob}")]
        texts = dict(zip(new, self.history.git.blobs(new) if new else (), strict=True))
        found = []
        for blob in blobs:
            release, digest, verified = self.memory.get(f"claim:{blob}", partial(what_it_says, texts.get(blob)))
            found.append(
                Claim(environment=environment, name=name, release=release, digest=digest, verified_digest=verified)
            )
        return found

    def _unsigned(self, claim: Claim, commits: Sequence[Commit]) -> Iterator[Violation]:
        """The commits that moved what is served without a signature that the policy of that day demanded."""
        self.days.prepare(_before(commit) for commit in commits)
        for commit in commits:
            rules = self.days.at(_before(commit))
            try:
                name = rules.default_policy
                demanded = rules.policy(name).policy.spec.history
            except InputError:
                continue  # a policy that can't be read admits nothing; said where a release was published under it
            if demanded is None or demanded.commits != "signed":
                continue
            key = key_of("commit", commit.id, rules.signers_text)
            if self.memory.holds(key):
                continue
            why = unsigned_commits(self.history.git, [commit.id], rules.signers_text)
            if not why:
                self.memory.keep(key)
                continue
            message = f"the policy '{name}' wants signed commits; {commit.id[:12]}, which changed what is served: "
            yield _violation(claim, "commit-unsigned", message + why[commit.id], commit.id)


def check_tags(tags: Mapping[str, Tag], known: Mapping[str, Publication]) -> Iterator[Violation]:
    """Every release tag that no publication made."""
    ours = {publication.tag for publication in known.values()}
    for name, tag in tags.items():
        if name not in ours and _RELEASE_TAG.fullmatch(name):
            yield Violation(
                rule="audit.tag-unpublished",
                message=f"tag {name} names a release that no commit of this history published",
                remedy=f"git show {name} shows who made it; git fetch if commits are missing, else delete the tag",
                commit=tag.commit,
                release=name.replace("@v", "@", 1),
            )


def check_allowed(history: History, published: Mapping[str, Published]) -> Iterator[Violation]:
    """Every release that the cluster would let in, though no record says so."""
    content = history.content(history.head, PUBLISHED_FILE.as_posix())
    if content is None:
        return
    last = _last(history.commits, PUBLISHED_FILE.as_posix())
    remedy = f"git log -p -- {PUBLISHED_FILE} shows who wrote it; remove the entry by a reviewed commit"
    try:
        allowed = parse_published(content.decode(errors="replace")).releases
    except InputError as error:
        yield Violation(
            rule="audit.allowed-unreadable", message=error.message, remedy=remedy, commit=last, path=str(PUBLISHED_FILE)
        )
        return
    for release, digest in allowed.items():
        record = published.get(release)
        if record is None or record.digest != digest or record.retired:
            wanted = f"its record says {record.digest}" if record else "there is no record of it"
            wanted = "its bytes were given up" if record and record.retired else wanted
            yield Violation(
                rule="audit.allowed-unpublished",
                message=f"the cluster lets in {release} with {digest}; {wanted}",
                remedy=remedy,
                commit=last,
                path=str(PUBLISHED_FILE),
                release=release,
            )


def _head(claim: Claim, commit: str | None, published: Mapping[str, Published]) -> Iterator[Violation]:
    if claim.release is None or claim.digest is None:
        message = "the Rollout and its pods do not say with one voice which release and digest they serve"
        yield _violation(claim, "deployed-unnamed", message, commit)
        return
    record = published.get(claim.release)
    if claim.release.partition("@")[0] != claim.name:
        yield _violation(claim, "deployed-name", f"the folder of {claim.name} serves {claim.release}", commit)
    if record is None:
        message = f"serves {claim.release}, which has no record: it was never published"
        yield _violation(claim, "deployed-unpublished", message, commit)
    elif record.retired:
        yield _violation(claim, "deployed-retired", f"serves {claim.release}, whose bytes were given up", commit)
    elif record.digest != claim.digest:
        message = f"serves {claim.digest} as {claim.release}, whose record says {record.digest}"
        yield _violation(claim, "deployed-digest", message, commit)
    if not claim.verified_digest:
        message = f"no init container verifies the weights against {claim.digest}"
        yield _violation(claim, "deployed-unverified", message, commit)


def _commit(
    history: History, commit: Commit, claim: Claim, before: Claim | None, published: Mapping[str, Published]
) -> Iterator[Violation]:
    wanted = {
        RELEASE_TRAILER: claim.release,
        DIGEST_TRAILER: claim.digest,
        ENVIRONMENT_TRAILER: claim.environment,
    }
    said = {key: commit.trailer(key) for key in wanted}
    moved = before is None or (before.release, before.digest) != (claim.release, claim.digest)
    if not any(said.values()):
        if moved and len(commit.parents) < 2:
            message = f"{commit.author} changed what is served to {claim.release} without a rollout's trailers"
            yield _violation(claim, "rollout-untraced", message, commit.id)
    elif said != wanted:
        wrong = [f"{key} is {said[key]}, deployed is {value}" for key, value in wanted.items() if said[key] != value]
        yield _violation(claim, "rollout-trailers", f"the commit says otherwise: {'; '.join(wrong)}", commit.id)
    record = published.get(claim.release or "")
    if moved and record is not None and not history.is_ancestor(record.commit, commit.id):
        message = f"{claim.release} was rolled out before it was published"
        yield _violation(claim, "rollout-early", message, commit.id)


def _before(commit: Commit) -> str:
    return commit.parents[0] if commit.parents else commit.id


_RELEASE_TAG = re.compile(f"{NAME_PATTERN[1:-1]}@v{VERSION_PATTERN[1:-1]}")


def _last(commits: Sequence[Commit], path: str) -> str | None:
    touching = [commit.id for commit in commits if any(change.path == path for change in commit.changes)]
    return touching[-1] if touching else None


def _violation(claim: Claim, rule: str, message: str, commit: str | None) -> Violation:
    return Violation(
        rule=f"audit.{rule}",
        message=message,
        remedy=f"find out who did it (git log -p -- {claim.path}), then roll out a published release: "
        f"modelctl rollout {claim.name}@VERSION --env {claim.environment}",
        commit=commit,
        path=claim.path,
        release=claim.release,
        environment=claim.environment,
    )
