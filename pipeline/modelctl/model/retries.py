"""How often a failing server is asked again, and how long between: bounded in number and in time."""

from __future__ import annotations

from dataclasses import dataclass

ATTEMPTS = 5
"""Tries of one request in all."""
FIRST_WAIT_S = 1.0
"""The wait after the first failure; it doubles with each."""
LONGEST_WAIT_S = 300.0
"""All waits of one request together, in seconds: the Hub counts requests in windows of five minutes."""


@dataclass(kw_only=True)
class Retries:
    """The failures of one request so far."""

    failures: int = 0
    waited_s: float = 0.0

    def next_wait_s(self, asked_s: float | None = None) -> float | None:
        """Count a failure and say how long to wait before the next try; None when it was the last.

        A server that asks for longer than what is left is not asked again: the person who waits shall decide.
        """
        self.failures += 1
        wait_s = max(asked_s or 0.0, FIRST_WAIT_S * 2.0 ** (self.failures - 1))
        if self.failures >= ATTEMPTS or self.waited_s + wait_s > LONGEST_WAIT_S:
            return None
        self.waited_s += wait_s
        return wait_s

    def progressed(self) -> None:
        """Forget the failures: much has arrived since."""
        self.failures = 0
        self.waited_s = 0.0
