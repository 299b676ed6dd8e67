"""What of a timeline is looked at: one release, one environment, a stretch of time; and whether there is such a thing.

A name that no commit speaks of is an error and not an empty answer, since nobody should take a misspelt name for peace.
"""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelctl.admission.names import SIGNERS_FILE
from modelctl.audit.events import Event
from modelctl.errors import InputError


@dataclass(frozen=True, kw_only=True)
class View:
    """What of a timeline is looked at; times have a zone."""

    name: str | None = None
    version: str | None = None
    env: str | None = None
    since: datetime.datetime | None = None
    until: datetime.datetime | None = None

    def of(self, events: list[Event]) -> list[Event]:
        """The events that belong to the view, in their order."""
        if self.name is not None:
            events = _about(events, self.name, self.version)
        if self.env is not None:
            events = [item for item in events if item.environment == self.env]
        if self.since is not None:
            events = [item for item in events if item.at >= self.since]
        if self.until is not None:
            events = [item for item in events if item.at <= self.until]
        return events

    def require_known(self, events: Sequence[Event]) -> None:
        """Raise `InputError` for a name, version or environment that no event of the whole history speaks of."""
        releases = {item.release for item in events if item.release}
        names = {release.partition("@")[0] for release in releases}
        if self.name is not None and self.name not in names:
            raise _unknown(f"a release of {self.name}", self.name, names)
        if self.version is not None and f"{self.name}@{self.version}" not in releases:
            wanted = f"{self.name}@{self.version}"
            raise _unknown(wanted, wanted, {item for item in releases if item.startswith(f"{self.name}@")})
        if self.env is not None and self.env not in (known := {item.environment for item in events} - {None}):
            raise _unknown(f"environment '{self.env}'", self.env, {item for item in known if item})


def _about(events: list[Event], name: str, version: str | None) -> list[Event]:
    def is_wanted(item: Event) -> bool:
        found, _, number = (item.release or "").partition("@")
        return found == name and version in (None, number)

    policies = {SIGNERS_FILE.name, *(item.policy for item in events if is_wanted(item))}
    waivers = {Path(item.waiver).stem for item in events if item.waiver and is_wanted(item)}
    judged = policies | waivers
    return [item for item in events if is_wanted(item) or (item.kind == "policy-changed" and item.policy in judged)]


def _unknown(what: str, word: str, known: Collection[str]) -> InputError:
    close = difflib.get_close_matches(word, known, n=1)
    some = ", ".join(sorted(known)[:8])
    remedy = f"did you mean {close[0]}?" if close else f"there are: {some}" if some else None
    return InputError(f"no commit of this history speaks of {what}", remedy=remedy)
