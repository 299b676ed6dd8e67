"""Narrows a failure at some length down to the cliff: the longest length that works and the shortest that does not.

Bisection takes what fails at one length to fail at every longer one. Where that is not so, the two lengths found still
are what was seen: one was answered, one was not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

Probe = Literal["works", "fails", "dead"]


@dataclass(frozen=True, kw_only=True)
class Cliff:
    """Where it breaks; lengths are prompt and answer, in tokens."""

    works: int | None
    """The longest length that was answered well; None: no length was."""
    fails: int
    """The shortest that was not."""
    tried: int
    """Lengths that were tried between the two that the walk had seen."""
    ended: str | None
    """Why it was not narrowed down to a step, if so."""

    def __str__(self) -> str:
        below = "no length was answered" if self.works is None else f"{self.works} tokens still work"
        words = f"{below}, {self.fails} do not"
        return f"{words} (not narrowed further: {self.ended})" if self.ended else words


async def find_cliff(
    works: int | None, fails: int, *, step: int, most: int, probe: Callable[[int], Awaitable[Probe]]
) -> Cliff:
    """Bisect between a length that works and one that fails until they are at most `step` tokens apart, with at most
    `most` lengths tried. An engine that dies on the way ends it: the length that killed it is the one that fails."""
    if works is None:
        return Cliff(works=None, fails=fails, tried=0, ended="the shortest length failed")
    tried = 0
    while fails - works > step:
        if tried == most:
            ended = f"{most} lengths were tried (long-context.max_cliff_lengths)"
            return Cliff(works=works, fails=fails, tried=tried, ended=ended)
        middle = (works + fails) // 2
        seen = await probe(middle)
        tried += 1
        if seen == "works":
            works = middle
        else:
            fails = middle
        if seen == "dead" and fails - works > step:
            return Cliff(works=works, fails=fails, tried=tried, ended="the engine died")
    return Cliff(works=works, fails=fails, tried=tried, ended=None)
