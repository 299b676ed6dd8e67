"""What environments serve now, or served at a moment, and the evidence that stands behind each release.

The moment is that of the commits of the main line: what it held then. How long a controller took to follow, only the
cluster's own records know.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from modelctl.audit.events import Event
from modelctl.audit.history import History
from modelctl.audit.log import commits_named
from modelctl.errors import InputError
from modelctl.rollout.standing import Named, named_over_time, standings_at

Role = Literal["stable", "canary"]
_STARTS = ("rolled-out", "reverted")


@dataclass(frozen=True, kw_only=True)
class Serving:
    """One release in one environment."""

    environment: str
    release: str
    role: Role
    digest: str | None
    """Of the served tree, as its manifest says, else as its record does."""
    since: str | None
    """When its manifest came to the environment, ISO 8601 with zone."""
    by: str | None
    """Who wrote the commit that brought it."""
    commit: str | None
    reason: str | None
    published: str | None
    """The commit that published it; None when no commit did."""
    tag: str | None
    signer: str | None
    """Who signed it, as in the timeline."""
    policy: str | None
    policy_digest: str | None
    evidence: str | None
    """sha256 of the report, in hex."""
    verdict: str | None
    checks: tuple[str, ...]
    approved_by: str | None
    """Who let the proposal in, and in which commit."""
    reviewers: tuple[str, ...]
    waivers: tuple[str, ...]

    def as_json(self) -> Mapping[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Span:
    """How long a place named a release."""

    release: str
    begin: str
    end: str | None
    """None for now."""
    promoted: bool


def commit_at(history: History, moment: datetime.datetime) -> str:
    """The last commit of the main line that was made by then. Raises `InputError` before the first one."""
    words = ("rev-list", "-1", "--first-parent", f"--until={moment.isoformat()}", history.head)
    found = history.git.run("--no-replace-objects", *words).strip() if history.head else ""
    if not found:
        raise InputError(
            f"{moment.isoformat()} is before the first commit of this history",
            remedy="git fetch --unshallow brings older commits, if this clone is shallow",
        )
    return found


def serving_at(history: History, events: Sequence[Event], commit: str, env: str | None = None) -> list[Serving]:
    """What every environment, or one, served at a commit, by environment and name; stable before canary.

    `events`: all of the history, in order. Raises `GitError`.
    """
    then = [item for item in events if history.is_ancestor(item.commit, commit)]
    found = []
    for standing, named in standings_at(history.root, commit):
        if env in (None, standing.environment):
            found.append(_serving(standing.environment, standing.stable, "stable", named, then))
            if standing.canary is not None:
                found.append(_serving(standing.environment, standing.canary, "canary", named, then))
    return found


def lanes(history: History) -> Mapping[str, tuple[Span, ...]]:
    """What each place (`environment/name`) named from when to when, at HEAD. Raises `GitError`."""
    if not history.head:
        return {}
    past = named_over_time(history.root, history.head)
    wanted = sorted({item.commit for named in past.values() for item in named} | _ends(past))
    dates = {commit: item.when for commit, item in commits_named(history.git, wanted).items()}
    return {
        f"{environment}/{folder}": tuple(_spans(named, dates)) for (environment, folder), named in sorted(past.items())
    }


def _ends(past: Mapping[tuple[str, str], Sequence[Named]]) -> set[str]:
    return {item.gone for named in past.values() for item in named if item.gone}


def _spans(named: Sequence[Named], dates: Mapping[str, str]) -> Iterator[Span]:
    for number, item in enumerate(named):
        after = item.gone or (named[number + 1].commit if number + 1 < len(named) else None)
        end = dates[after] if after else None
        yield Span(release=item.release, begin=dates[item.commit], end=end, promoted=item.promoted)


def _serving(environment: str, release: str, role: Role, named: Named, events: Sequence[Event]) -> Serving:
    about = [item for item in events if item.release == release]
    came = _last(about, *_STARTS, environment=environment)
    back = [item for item in events if item.environment == environment and item.commit == named.commit]
    if named.release == release:  # after a rollback the commit names the release that left
        came = next(iter(back), came)
    published = _last(about, "published")
    judged = _last(about, "admitted", "refused", "undecided")
    approved = _last(about, "approved")
    return Serving(
        environment=environment,
        release=release,
        role=role,
        digest=(named.digest if named.release == release else None) or (published.digest if published else None),
        since=came.when if came else None,
        by=came.who if came else None,
        commit=came.commit if came else None,
        reason=came.reason if came else None,
        published=published.commit if published else None,
        tag=published.tag if published else None,
        signer=published.signer if published else None,
        policy=published.policy if published else None,
        policy_digest=published.policy_digest if published else None,
        evidence=published.evidence if published else None,
        verdict=judged.kind if judged else None,
        checks=judged.checks if judged else (),
        approved_by=f"{approved.who} in {approved.commit}" if approved else None,
        reviewers=approved.reviewers if approved else (),
        waivers=tuple(dict.fromkeys(item.waiver for item in about if item.waiver)),
    )


def _last(events: Sequence[Event], *kinds: str, environment: str | None = None) -> Event | None:
    found = (item for item in reversed(events) if item.kind in kinds and environment in (None, item.environment))
    return next(found, None)
