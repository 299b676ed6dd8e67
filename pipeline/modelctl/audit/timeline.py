"""What happened to every release, from git history alone: proposed, judged, published, rolled out, policy changes.

An event says what a commit did, not that it was right to: `verify` compares the claims.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from modelctl.admission.report import Report
from modelctl.admission.signers import SIGNERS_FILE
from modelctl.audit.history import Commit, FileChange, History, read_history
from modelctl.errors import InputError
from modelctl.registry.publish import tag_name
from modelctl.registry.records import RECORD_FILE, REPORT_FILE
from modelctl.registry.retired import RETIRED_FILE
from modelctl.rollout.published import PUBLISHED_FILE
from modelctl.rollout.words import (
    ABORTED_TRAILER,
    DIGEST_TRAILER,
    PROMOTED_TRAILER,
    REASON_TRAILER,
    RELEASE_ANNOTATION,
    RELEASE_TRAILER,
    ROLLED_BACK_TRAILER,
    ROLLOUT_FILE,
)

Kind = Literal[
    "proposed",
    "changed",
    "withdrawn",
    "admitted",
    "refused",
    "undecided",
    "unreadable",
    "published",
    "record-changed",
    "retired",
    "rolled-out",
    "promoted",
    "aborted",
    "rolled-back",
    "taken-down",
    "environment-changed",
    "policy-changed",
]
_RELEASE_FILE = re.compile(r"registry/(?P<name>[^/]+)/(?P<version>[^/]+)/(?P<file>[^/]+)")
_DEPLOYMENT_FILE = re.compile(r"gitops/environments/(?P<env>[^/]+)/(?:(?P<name>[^/]+)/)?(?P<file>[^/]+)")
_ANNOTATION = re.compile(rf"^\s+{re.escape(RELEASE_ANNOTATION)}: (\S+)$", re.MULTILINE)
_WITHDRAWALS: tuple[tuple[Kind, str], ...] = (("aborted", ABORTED_TRAILER), ("rolled-back", ROLLED_BACK_TRAILER))
_ORDER = {file: rank for rank, file in enumerate(("release.yaml", REPORT_FILE, RECORD_FILE))}


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that one commit did."""

    kind: Kind
    commit: str
    when: str
    """Committer's date, ISO 8601 with zone."""
    who: str
    """The commit's author: `Name <address>`."""
    release: str | None = None
    environment: str | None = None
    digest: str | None = None
    """The served tree's digest."""
    policy: str | None = None
    machine: str | None = None
    tag: str | None = None
    reason: str | None = None
    detail: str = ""

    def as_json(self) -> Mapping[str, str | None]:
        """Plain values."""
        return asdict(self)


def timeline(
    root: Path,
    *,
    name: str | None = None,
    version: str | None = None,
    env: str | None = None,
    since: datetime.datetime | None = None,
) -> list[Event]:
    """The events of a registry repository in the order of its history.

    `name` and `version` keep one release's events and the changes of what judged it; `env` keeps what happened in one
    environment; `since` (with a time zone) keeps what was committed then or later. Raises `InputError`, `GitError`.
    """
    events = events_of(read_history(root))
    if name is not None:
        events = _about(events, name, version)
    if env is not None:
        events = [event for event in events if event.environment == env]
    if since is not None:
        events = [event for event in events if datetime.datetime.fromisoformat(event.when) >= since]
    return events


def events_of(history: History) -> list[Event]:
    """Every event of a history that has been read already."""
    wanted = [(commit, change) for commit in history.commits for change in sorted(commit.changes, key=_rank)]
    read = [(commit.id, change.path) for commit, change in wanted if _is_read(change)]
    contents = dict(zip(read, history.contents(read), strict=True))
    tags = _tags(history)
    events = []
    for commit, change in wanted:
        event = _event(commit, change, contents.get((commit.id, change.path)), tags)
        if event is not None:
            events.append(event)
    return events


def _event(commit: Commit, change: FileChange, content: bytes | None, tags: frozenset[str]) -> Event | None:
    if match := _RELEASE_FILE.fullmatch(change.path):
        release = f"{match['name']}@{match['version']}"
        match match["file"]:
            case "release.yaml":
                kind: Kind = "proposed" if change.added else "withdrawn" if change.deleted else "changed"
                return _base(commit, kind, release=release, detail=commit.subject)
            case file if file == REPORT_FILE:
                return _judged(commit, release, content, change)
            case file if file == RETIRED_FILE and change.added:
                reason = commit.trailer(REASON_TRAILER)
                return _base(commit, "retired", release=release, reason=reason, detail=commit.subject)
            case file if file == RECORD_FILE:
                return _published(commit, release, tags, change)
    elif match := _DEPLOYMENT_FILE.fullmatch(change.path):
        if match["name"] is not None and match["file"] == ROLLOUT_FILE:
            return _rolled_out(commit, match["env"], match["name"], content, change)
        if match["name"] is None and match["file"] == "environment.yaml":
            return _base(commit, "environment-changed", environment=match["env"], detail=commit.subject)
    elif change.path.startswith("policies/") and change.path != str(PUBLISHED_FILE):
        return _base(commit, "policy-changed", policy=Path(change.path).stem, detail=_done(change))
    return None


def _judged(commit: Commit, release: str, content: bytes | None, change: FileChange) -> Event:
    if content is None:
        return _base(commit, "record-changed", release=release, detail=_done(change))
    try:
        report = Report.from_json(content.decode(errors="replace"), origin=change.path)
    except InputError as error:
        return _base(commit, "unreadable", release=release, detail=error.message)
    failed = [check.id for check in report.checks if check.outcome in ("failed", "error")]
    partial = ["only some checks were asked for"] if report.partial else []
    return _base(
        commit,
        report.verdict,
        release=release,
        digest=report.model.served_digest,
        policy=report.policy.name,
        machine=report.machine.hostname,
        detail="; ".join([*partial, *([f"not passed: {', '.join(failed)}"] if failed else [])]),
    )


def _published(commit: Commit, release: str, tags: frozenset[str], change: FileChange) -> Event:
    tag = tag_name(*release.split("@", 1))
    if not change.added:
        return _base(commit, "record-changed", release=release, detail=_done(change))
    return _base(
        commit,
        "published",
        release=release,
        digest=commit.trailer(DIGEST_TRAILER),
        tag=tag if tag in tags else None,
        detail=commit.subject,
    )


def _rolled_out(commit: Commit, env: str, name: str, content: bytes | None, change: FileChange) -> Event:
    if content is None or change.deleted:
        return _base(commit, "taken-down", environment=env, detail=f"{name}: {commit.subject}")
    reason = commit.trailer(REASON_TRAILER)
    for kind, trailer in _WITHDRAWALS:
        if left := commit.trailer(trailer):  # of the two releases, the one whose story ends here
            return _base(commit, kind, release=left, environment=env, reason=reason, detail=commit.subject)
    found = _ANNOTATION.search(content.decode(errors="replace"))
    return _base(
        commit,
        "promoted" if commit.trailer(PROMOTED_TRAILER) else "rolled-out",
        release=found[1] if found else commit.trailer(RELEASE_TRAILER),
        environment=env,
        digest=commit.trailer(DIGEST_TRAILER),
        reason=reason,
        detail=commit.subject,
    )


def _base(
    commit: Commit,
    kind: Kind,
    *,
    release: str | None = None,
    environment: str | None = None,
    digest: str | None = None,
    policy: str | None = None,
    machine: str | None = None,
    tag: str | None = None,
    reason: str | None = None,
    detail: str = "",
) -> Event:
    return Event(
        kind=kind,
        commit=commit.id,
        when=commit.when,
        who=commit.author,
        release=release,
        environment=environment,
        digest=digest,
        policy=policy,
        machine=machine,
        tag=tag,
        reason=reason,
        detail=detail,
    )


def _about(events: list[Event], name: str, version: str | None) -> list[Event]:
    def is_wanted(event: Event) -> bool:
        found, _, number = (event.release or "").partition("@")
        return found == name and version in (None, number)

    policies = {SIGNERS_FILE.name, *(event.policy for event in events if is_wanted(event))}
    return [
        event for event in events if is_wanted(event) or (event.kind == "policy-changed" and event.policy in policies)
    ]


def _done(change: FileChange) -> str:
    word = "added" if change.added else "removed" if change.deleted else "changed"
    return f"{word} {change.path}"


def _is_read(change: FileChange) -> bool:
    return change.path.endswith((f"/{REPORT_FILE}", f"/{ROLLOUT_FILE}")) and not change.deleted


def _rank(change: FileChange) -> tuple[bool, str, int]:
    folder, _, file = change.path.rpartition("/")
    return not change.path.startswith("policies/"), folder, _ORDER.get(file, len(_ORDER))


def _tags(history: History) -> frozenset[str]:
    return frozenset(history.git.run("for-each-ref", "--format=%(refname:strip=2)", "refs/tags").splitlines())
