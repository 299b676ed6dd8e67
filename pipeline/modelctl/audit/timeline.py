"""What happened to every release, from git history alone: proposed, approved, judged, published, rolled out, and the
changes of what judged them.

An event says what a commit did, not that it was right to: `verify` compares the claims.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelctl.admission.names import SIGNERS_FILE, SIGNERS_FOLDER
from modelctl.audit.approvals import Approvals
from modelctl.audit.events import Event, Kind, event
from modelctl.audit.history import History, read_history
from modelctl.audit.log import Commit, FileChange
from modelctl.audit.memory import Memory
from modelctl.audit.reading import ReportFacts, facts_of, plain_facts
from modelctl.audit.view import View
from modelctl.registry.names import RECORD_FILE, REPORT_FILE, RETIRED_FILE
from modelctl.registry.versions import tag_name
from modelctl.rollout.words import (
    ABORTED_TRAILER,
    DIGEST_TRAILER,
    PROMOTED_TRAILER,
    PUBLISHED_FILE,
    REASON_TRAILER,
    RELEASE_TRAILER,
    ROLLED_BACK_TRAILER,
    ROLLOUT_FILE,
)

__all__ = ["Event", "Kind", "events_of", "timeline"]

_RELEASE_FILE = re.compile(r"registry/(?P<name>[^/]+)/(?P<version>[^/]+)/(?P<file>[^/]+)")
_DEPLOYMENT_FILE = re.compile(r"gitops/environments/(?P<env>[^/]+)/(?:(?P<name>[^/]+)/)?(?P<file>[^/]+)")
_WITHDRAWALS: tuple[tuple[Kind, str], ...] = (("aborted", ABORTED_TRAILER), ("rolled-back", ROLLED_BACK_TRAILER))
_ORDER = {file: rank for rank, file in enumerate(("release.yaml", REPORT_FILE, RECORD_FILE))}
_SIGNERS = SIGNERS_FILE.name


def timeline(
    root: Path,
    *,
    name: str | None = None,
    version: str | None = None,
    env: str | None = None,
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
) -> list[Event]:
    """The events of a registry repository in the order of its history.

    `name` and `version` keep one release's events and the changes of what judged it; `env` keeps what happened in one
    environment; `since` and `until` (with a time zone) what was committed then or later, then or earlier. Raises
    `InputError`, `GitError`.
    """
    view = View(name=name, version=version, env=env, since=since, until=until)
    return view.of(events_of(read_history(root)))


def events_of(history: History, memory: Memory | None = None) -> list[Event]:
    """Every event of a history that has been read already; `memory` has what files said in earlier runs."""
    wanted = [
        (commit, change)
        for commit in history.commits
        for change in (sorted(commit.changes, key=_rank) if len(commit.changes) > 1 else commit.changes)
    ]
    teller = _Teller(
        said=_said(history, wanted, memory or Memory(None)),
        tags=frozenset(history.git.run("for-each-ref", "--format=%(refname:strip=2)", "refs/tags").splitlines()),
        approvals=Approvals(history, [commit for commit, change in wanted if _proposes(change)]),
    )
    return [item for commit, change in wanted for item in teller.tell(commit, change)]


def _said(history: History, wanted: Sequence[tuple[Commit, FileChange]], memory: Memory) -> Mapping[str, Any]:
    """What the file of each change says, by the blob and the file's name."""
    keys = {f"{_file(change)}:{change.blob}": change for _, change in wanted if change.blob and _is_read(change)}
    new = [key for key in keys if not memory.holds(key)]
    contents = history.git.blobs([keys[key].blob or "" for key in new]) if new else ()
    for key, content in zip(new, contents, strict=True):
        memory.keep(key, plain_facts(content or b"", _file(keys[key])))
    return {key: memory.known(key) for key in keys}


@dataclass(frozen=True, kw_only=True)
class _Teller:
    """From a changed file to what happened."""

    said: Mapping[str, Any]
    tags: frozenset[str]
    approvals: Approvals

    def tell(self, commit: Commit, change: FileChange) -> Iterator[Event]:
        if match := _RELEASE_FILE.fullmatch(change.path):
            yield from self._release(commit, change, f"{match['name']}@{match['version']}", match["file"])
        elif match := _DEPLOYMENT_FILE.fullmatch(change.path):
            if match["name"] is not None and match["file"] == ROLLOUT_FILE:
                yield _rolled_out(commit, match["env"], match["name"], self._facts(change), change)
            elif match["name"] is None and match["file"] == "environment.yaml":
                yield event(commit, "environment-changed", environment=match["env"], detail=commit.subject)
        elif change.path.startswith("policies/") and change.path != str(PUBLISHED_FILE):
            yield event(commit, "policy-changed", policy=_policy_name(change.path), detail=_done(change))

    def _release(self, commit: Commit, change: FileChange, release: str, file: str) -> Iterator[Event]:
        if (before := _moved_from(commit, change)) is not None:
            if file == "release.yaml":
                yield event(commit, "moved", release=release, detail=f"from {before.rpartition('/')[0]}")
            elif file == RECORD_FILE:
                yield event(commit, "record-changed", release=release, detail=f"moved from {before}")
        elif file == "release.yaml":
            kind: Kind = "proposed" if change.added else "withdrawn" if change.deleted else "changed"
            if not (change.deleted and _moved_to(commit, change)):
                yield event(commit, kind, release=release, detail=commit.subject)
            if not change.deleted:
                yield self.approvals.of(commit, release)
        elif file == REPORT_FILE:
            yield from _judged(commit, release, self._facts(change), change)
        elif file == RETIRED_FILE and change.added:
            reason = commit.trailer(REASON_TRAILER)
            yield event(commit, "retired", release=release, reason=reason, detail=commit.subject)
        elif file == RECORD_FILE:
            yield self._published(commit, release, change)

    def _published(self, commit: Commit, release: str, change: FileChange) -> Event:
        if not change.added:
            return event(commit, "record-changed", release=release, detail=_done(change))
        tag = tag_name(*release.split("@", 1))
        said = self._facts(change) or {}
        return event(
            commit,
            "published",
            release=release,
            digest=commit.trailer(DIGEST_TRAILER) or said.get("digest"),
            policy=said.get("policy"),
            policy_digest=said.get("policy_digest"),
            evidence=said.get("report_sha256"),
            signer=said.get("identity") or said.get("key_id"),
            tag=tag if tag in self.tags else None,
            detail=commit.subject,
        )

    def _facts(self, change: FileChange) -> Any:
        return self.said.get(f"{_file(change)}:{change.blob}")


def _judged(commit: Commit, release: str, said: Any, change: FileChange) -> Iterator[Event]:
    if change.deleted:
        yield event(commit, "record-changed", release=release, detail=_done(change))
        return
    if said is None:
        yield event(commit, "unreadable", release=release, detail=f"{change.path}: not a report")
        return
    facts = facts_of(said)
    yield from _waived(commit, release, facts)
    failed = [name for name, outcome in facts.checks if outcome in ("failed", "error")]
    partial = ["only some checks were asked for"] if facts.partial else []
    yield event(
        commit,
        facts.verdict,
        release=release,
        digest=facts.served_digest,
        policy=facts.policy,
        policy_digest=facts.policy_digest,
        machine=", ".join(facts.machines),
        evidence=facts.sha256,
        checks=tuple(f"{name}: {outcome}" for name, outcome in facts.checks),
        detail="; ".join([*partial, *([f"not passed: {', '.join(failed)}"] if failed else [])]),
    )


def _waived(commit: Commit, release: str, facts: ReportFacts) -> Iterator[Event]:
    for item in facts.waived:
        where = f" in {item.path}" if item.path else ""
        yield event(
            commit,
            "waived",
            release=release,
            waiver=item.waiver,
            reason=item.reason,
            detail=f"{item.rule}{where}, {item.owner} answers, {item.approver} agreed, until {item.expires}",
        )


def _rolled_out(commit: Commit, env: str, name: str, named: str | None, change: FileChange) -> Event:
    if change.deleted:
        return event(commit, "taken-down", environment=env, detail=f"{name}: {commit.subject}")
    reason = commit.trailer(REASON_TRAILER)
    for kind, trailer in _WITHDRAWALS:
        if left := commit.trailer(trailer):  # of the two releases, the one whose story ends here
            return event(commit, kind, release=left, environment=env, reason=reason, detail=commit.subject)
    traced = commit.trailer(RELEASE_TRAILER)
    reverted = traced is None and commit.subject.startswith('Revert "')
    return event(
        commit,
        "promoted" if commit.trailer(PROMOTED_TRAILER) else "reverted" if reverted else "rolled-out",
        release=named or traced,
        environment=env,
        digest=commit.trailer(DIGEST_TRAILER),
        reason=reason,
        detail=commit.subject,
    )


def _moved_from(commit: Commit, change: FileChange) -> str | None:
    """Where a release's file was before this commit, when it holds the same bytes here: a renamed folder."""
    if not change.added:
        return None
    gone = (item for item in commit.changes if item.deleted and item.before == change.blob)
    return next((item.path for item in gone if _file(item) == _file(change)), None)


def _moved_to(commit: Commit, change: FileChange) -> bool:
    return any(item.added and item.blob == change.before and _file(item) == _file(change) for item in commit.changes)


def _file(change: FileChange) -> str:
    return change.path.rpartition("/")[2]


def _policy_name(path: str) -> str:
    return _SIGNERS if path.startswith(f"{SIGNERS_FOLDER}/") else Path(path).stem


def _done(change: FileChange) -> str:
    word = "added" if change.added else "removed" if change.deleted else "changed"
    return f"{word} {change.path}"


def _is_read(change: FileChange) -> bool:
    return change.path.endswith((f"/{REPORT_FILE}", f"/{RECORD_FILE}", f"/{ROLLOUT_FILE}")) and not change.deleted


def _proposes(change: FileChange) -> bool:
    return change.path.endswith("/release.yaml") and not change.deleted


def _rank(change: FileChange) -> tuple[bool, str, int]:
    folder, _, file = change.path.rpartition("/")
    return not change.path.startswith("policies/"), folder, _ORDER.get(file, len(_ORDER))
