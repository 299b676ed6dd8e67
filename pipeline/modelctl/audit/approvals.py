"""Who let a change in: the commit of the main line by which it arrived, and whom that commit names.

A merge names its committer, a squashed or rebased change the person or service that wrote it to the main line; trailers
name reviewers. git proves none of it: a signature does, where the policy demands one, and the code host's own log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from modelctl.audit.events import Event, event
from modelctl.audit.history import History
from modelctl.audit.log import Commit, commits_named

REVIEW_TRAILERS = ("reviewed-by", "approved-by", "acked-by", "tested-by", "signed-off-by")
_PULL_REQUEST = re.compile(r"^Merge pull request (#\d+)\b|\((#\d+)\)$|\((\S*!\d+)\)$")
"""As GitHub, and GitLab where its merge template says so, write subjects."""


class Approvals:
    """The approvals of a history's commits; read at once for all that are asked about."""

    def __init__(self, history: History, commits: Iterable[Commit]) -> None:
        self._landed = {item.id: history.graph.landed.get(item.id, item.id) for item in commits}
        wanted = sorted({landing for landing in self._landed.values() if landing not in history.by_id})
        self._known: Mapping[str, Commit] = {**history.by_id, **commits_named(history.git, wanted)}

    def of(self, proposal: Commit, release: str) -> Event:
        """The approval of what a commit proposed; `unreviewed` when git names nobody but its author."""
        landing = self._known[self._landed[proposal.id]]
        named = reviewers(landing, proposal)
        second = landing.committer if landing.committer != proposal.author else None
        number = pull_request(landing.subject)
        what = "merged" if landing.id != proposal.id else "on the main line"
        detail = ", ".join(part for part in (what, number) if part)
        if not named and second is None:
            return event(landing, "unreviewed", release=release, detail=f"{detail}; git names nobody but its author")
        found = event(landing, "approved", release=release, detail=detail, reviewers=named)
        return Event(**{**found.__dict__, "who": landing.committer})


def reviewers(*commits: Commit) -> tuple[str, ...]:
    """Whom the trailers of some commits name as having looked at them, each once: `Reviewed-by: Ann <ann@…>`."""
    proposal = commits[-1]
    found = [
        f"{name}: {value}"
        for commit in dict.fromkeys(commits)
        for name, value in commit.trailers
        if name.lower() in REVIEW_TRAILERS and not (name.lower() == "signed-off-by" and value == proposal.author)
    ]
    return tuple(dict.fromkeys(found))


def pull_request(subject: str) -> str | None:
    """The number of the pull request that a subject names as code hosts write it."""
    found = _PULL_REQUEST.search(subject)
    return next((group for group in found.groups() if group), None) if found else None
