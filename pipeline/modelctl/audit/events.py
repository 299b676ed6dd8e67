"""What an audit tells: one thing that one commit did, and everything that says who, when, why and on which evidence."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from modelctl.audit.log import Commit

Kind = Literal[
    "proposed",
    "changed",
    "moved",
    "withdrawn",
    "approved",
    "unreviewed",
    "admitted",
    "refused",
    "undecided",
    "unreadable",
    "waived",
    "published",
    "record-changed",
    "retired",
    "rolled-out",
    "promoted",
    "aborted",
    "rolled-back",
    "reverted",
    "taken-down",
    "environment-changed",
    "policy-changed",
]


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that one commit did."""

    kind: Kind
    commit: str
    when: str
    """Committer's date, ISO 8601 with zone."""
    who: str
    """The commit's author, for an approval its committer: `Name <address>`."""
    release: str | None = None
    environment: str | None = None
    digest: str | None = None
    """The served tree's digest."""
    policy: str | None = None
    machine: str | None = None
    tag: str | None = None
    reason: str | None = None
    detail: str = ""
    policy_digest: str | None = None
    evidence: str | None = None
    """sha256 of the report, in hex."""
    checks: tuple[str, ...] = ()
    """Of a report: `id: outcome`."""
    reviewers: tuple[str, ...] = ()
    """Whom the trailers of an approval name, each with what: `Reviewed-by: Ann <ann@example.org>`."""
    signer: str | None = None
    """Who signed, as the record says it: the identity and issuer of a keyless signature, else the key's fingerprint."""
    waiver: str | None = None
    """The waiver's file."""

    @property
    def at(self) -> datetime.datetime:
        """When, with a zone."""
        return datetime.datetime.fromisoformat(self.when)

    def as_json(self) -> Mapping[str, Any]:
        """Plain values."""
        return asdict(self)


def event(commit: Commit, kind: Kind, **about: Any) -> Event:
    """What a commit did."""
    return Event(kind=kind, commit=commit.id, when=commit.when, who=commit.author, **about)
