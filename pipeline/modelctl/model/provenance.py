"""Whether a source was named as the policy demands: at the Hub by a full commit, and from an owner on the list.

A branch can be moved after a review, and a deleted owner's name can be registered by anyone: hashes that agree with the
Hub's own listing say nothing about either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modelctl.model.hub import COMMIT
from modelctl.model.sources import Snapshot


@dataclass(frozen=True, kw_only=True)
class ProvenanceProblem:
    """One demand that a source does not meet."""

    kind: str
    """One of: unpinned, owner."""
    detail: str
    remedy: str


def provenance_problems(
    snapshot: Snapshot, *, require_pinned: bool, owners: Sequence[str]
) -> Iterator[ProvenanceProblem]:
    """What is wrong with how the Hub repositories were named that the files came from or are compared with.

    `owners` are Hub users and organisations, spelled as the Hub does; none means that all may be. A folder without
    an upstream names no repository: a policy that has to know sets `require_upstream` too.
    """
    repo_id, asked, commit = snapshot.repo_id, snapshot.asked_revision, snapshot.commit
    if require_pinned and repo_id is not None and asked is not None and not COMMIT.fullmatch(asked):
        now = f", which is commit {commit} now" if commit else ""
        yield ProvenanceProblem(
            kind="unpinned",
            detail=f"{repo_id} was asked for at '{asked}'{now}, wanted a full commit: a branch or a tag can be moved",
            remedy=f"name the commit: {repo_id}@{commit or 'COMMIT'}",
        )
    named = {repo_id, snapshot.upstream.repo_id if snapshot.upstream is not None else None}
    for repository in sorted(filter(None, named)):
        owner, slash, _ = repository.partition("/")
        if owners and not (slash and owner in owners):
            yield ProvenanceProblem(
                kind="owner",
                detail=f"{repository} belongs to '{owner}'; the policy's owners are {', '.join(owners)}",
                remedy="take the model from a listed owner, or add this one to integrity.owners by a reviewed change",
            )
