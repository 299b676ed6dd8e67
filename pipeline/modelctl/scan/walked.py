"""What a walk over one pickle saw: the names that a loader would import, and what it would do with them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from modelctl.scan.harmless import is_harmless
from modelctl.scan.values import UNKNOWN

CERTAIN_OPCODES = 16
"""So many opcodes in a row are no accident; the length that a safetensors file begins with can pass for a few."""
_IDENTIFIER = re.compile(r"\w+(\.\w+)*")

How = Literal["imports", "calls", "calls with keyword arguments", "changes"]


@dataclass(frozen=True, kw_only=True)
class Import:
    """What a loader of the pickle would do with a name, `offset` bytes from the start of the file.

    `how` is "imports" for every name, and something else for a second entry about a name that may be imported, but
    not called like that.
    """

    module: str
    name: str
    offset: int
    how: How = "imports"

    @property
    def harmless(self) -> bool:
        """Whether the exact name is on the list of harmless ones, and used as those are."""
        return self.how == "imports" and is_harmless(self.module, self.name)


@dataclass(kw_only=True)
class Pickle:
    """What a walk saw. `end` is the offset behind the STOP, None when there was none."""

    start: int
    protocol: int | None = None
    """As the pickle itself says; None for protocols 0 and 1, which need not."""
    imports: list[Import] = field(default_factory=list)
    calls: int = 0
    problem: str | None = None
    """Why the walk could not go on, or could not tell a name; None when it came to the end."""
    unknown_name: bool = False
    """Something is imported, and what it is can't be told from the bytes."""
    cut_off: bool = False
    """The problem is that the stream ends."""
    limited: bool = False
    """The problem is a limit of this walk, at which a loader would go on."""
    opcodes: int = 0
    end: int | None = None
    value: object = UNKNOWN
    """The object that the pickle is, as far as it was followed (see `values`)."""

    @property
    def certain(self) -> bool:
        """Whether the bytes are a pickle beyond doubt, not a text that happens to begin with its letters."""
        if self.limited:
            return True
        known = self.end is not None or bool(self.imports) or self.unknown_name
        if self.protocol is not None and (known or self.opcodes >= CERTAIN_OPCODES):
            return True
        names = any(_IDENTIFIER.fullmatch(item.module) and _IDENTIFIER.fullmatch(item.name) for item in self.imports)
        return names and (self.calls > 0 or self.end is not None)
