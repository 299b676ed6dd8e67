"""Everything that one run of `modelctl audit` found, and how it is written for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modelctl.audit.events import Event
    from modelctl.audit.history import History
    from modelctl.audit.origins import Origin
    from modelctl.audit.serving import Serving
    from modelctl.audit.violation import Verification


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Everything that one run found; what was not asked for is None."""

    history: History
    everything: list[Event]
    events: list[Event]
    commit: str | None = None
    """Of which `serving` is."""
    serving: list[Serving] | None = None
    releases: list[Origin] | None = None
    verification: Verification | None = None

    @property
    def exit_code(self) -> int:
        """That of the verification; 3 when this clone does not hold the whole history."""
        code = self.verification.exit_code if self.verification else 0
        return 3 if code == 0 and self.history.shallow else code


def to_json(answer: Answer) -> str:
    """All of it, as docs/schemas/audit.v1.schema.json has it."""
    from modelctl.audit.told import Told

    return Told(
        head=answer.history.head,
        shallow=answer.history.shallow,
        events=answer.events,
        commit=answer.commit,
        serving=answer.serving,
        releases=answer.releases,
        verification=answer.verification,
    ).to_json()


def _findings(verification: Verification) -> list[Mapping[str, str | None]]:
    """The violations, and under the rule `unverified` what could not be checked."""
    nobody = {"rule": "unverified", "environment": None, "commit": None, "path": None}
    unverified = [
        {**nobody, "release": item.release, "message": item.reason, "remedy": item.remedy}
        for item in verification.unverified
    ]
    return [*(item.as_json() for item in verification.violations), *unverified]


def to_csv(answer: Answer) -> str:
    """One table: the findings of a verification, else the answer to a question, else the timeline."""
    from modelctl.audit.tables import EVENT_COLUMNS, ORIGIN_COLUMNS, SERVING_COLUMNS, VIOLATION_COLUMNS, as_csv

    if answer.verification is not None:
        return as_csv(VIOLATION_COLUMNS, _findings(answer.verification))
    if answer.serving is not None:
        return as_csv(SERVING_COLUMNS, [item.as_json() for item in answer.serving])
    if answer.releases is not None:
        return as_csv(ORIGIN_COLUMNS, [item.as_json() for item in answer.releases])
    return as_csv(EVENT_COLUMNS, [event.as_json() for event in answer.events])
