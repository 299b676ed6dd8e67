"""Ends a request that says nothing for too long, or that is not finished in time.

One coarse timer a request that re-arms itself only when it runs out: a timer that is moved with every read, as HTTP
clients have it, costs a load generator more than parsing the read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from modelctl.serving.answers import FailureKind


class _Reader(Protocol):
    last_read_s: float

    def fail(self, kind: FailureKind, detail: str) -> None: ...


class Patience:
    """For the time of a `with` block inside a task: when patience runs out, the block is left and the reader told."""

    def __init__(self, reader: _Reader, *, now: Callable[[], float], silence_limit_s: float, until_s: float) -> None:
        """`until_s` ends the request whatever it says; both on the clock of `now`."""
        self._reader = reader
        self._now = now
        self._silence_limit_s = silence_limit_s
        self._begin_s = now()
        self._until_s = until_s
        self._expired = False
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("used outside of a task")
        self._task = task
        self._cancelling = task.cancelling()

    def __enter__(self) -> Patience:
        self._arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._timer.cancel()
        if not self._expired:
            return False
        others = self._task.uncancel() > self._cancelling
        return not others and kind is not None and issubclass(kind, asyncio.CancelledError)

    def _arm(self) -> None:
        due = min(self._reader.last_read_s + self._silence_limit_s, self._until_s)
        self._timer = self._loop.call_later(max(0.0, due - self._now()), self._look)

    def _look(self) -> None:
        now = self._now()
        if now >= self._until_s:
            self._reader.fail("timeout", f"not finished after {self._until_s - self._begin_s:g} s")
        elif now >= self._reader.last_read_s + self._silence_limit_s:
            self._reader.fail("stalled", f"no byte for {self._silence_limit_s:g} s")
        else:
            self._arm()
            return
        self._expired = True
        self._task.cancel()
