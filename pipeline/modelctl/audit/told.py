"""What `modelctl audit --json` writes: everything that one run found, in a format that programs may rely on.

docs/schemas/audit.v1.schema.json is made from these classes. A key may be added; none is renamed or taken away.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from modelctl.audit.events import Event
from modelctl.audit.origins import Origin
from modelctl.audit.serving import Serving
from modelctl.audit.violation import Verification


@dataclass(frozen=True, kw_only=True)
class Told:
    """An audit's answer; what was not asked for is null."""

    schema_version: Literal["1"] = "1"
    head: str
    """The commit that the history leads to; empty before the first one."""
    shallow: bool
    """Whether older commits are missing in this clone, so that nothing here is the whole story."""
    events: Sequence[Event]
    """The timeline, oldest first."""
    commit: str | None
    """The commit that says what was served: of --now and --at."""
    serving: Sequence[Serving] | None
    """What is served, or was at that moment: of --now and --at."""
    releases: Sequence[Origin] | None
    """The releases that fit: of --source, --base, --policy and --waiver."""
    verification: Verification | None
    """Of --verify."""

    def to_json(self) -> str:
        """The text of the file."""
        return json.dumps(self, default=vars, indent=2, ensure_ascii=False) + "\n"
