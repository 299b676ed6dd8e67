"""A load on a progress bar: the time that is over, and live figures beside it."""

from __future__ import annotations

from collections.abc import Callable

from modelctl.progress import Task
from modelctl.serving.load import Tick


def answered(tick: Tick) -> str:
    """How many requests were answered, and how many failed."""
    return f"{tick.answered} answered, {tick.failed} failed"


class LoadBar:
    """Takes the ticks of one load and moves its bar, which counts seconds, never back."""

    def __init__(self, task: Task, words: Callable[[Tick], str] = answered, *, end_s: float) -> None:
        """`words` is what stands beside the bar; `end_s` is where it stays, however long the last answers take."""
        self._task = task
        self._words = words
        self._end_s = end_s
        self._shown_s = 0.0

    def __call__(self, tick: Tick) -> None:
        """Show one tick."""
        self.reach(tick.elapsed_s)
        self._task.describe(self._words(tick))

    def reach(self, to_s: float) -> None:
        """Move the bar to a moment of the load, in seconds since it began."""
        to_s = min(to_s, self._end_s)
        if to_s > self._shown_s:
            self._task.advance(to_s - self._shown_s)
            self._shown_s = to_s
