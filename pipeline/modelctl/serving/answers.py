"""One answered request as a row of figures, and what its text says about the engine's health.

Times are seconds since the client was opened. Tokens come from the engine's own `usage`, never from counting chunks.
A row without a `failure` had status 200, a finish reason, usage with at least one token, the final `[DONE]` and no
error inside the stream.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

FailureKind = Literal[
    "connect", "http", "stream-error", "cut", "stalled", "timeout", "incomplete", "no-tokens", "not-sent"
]
"""`not-sent`: the load generator had as many requests under way as it may; its own fault, not the engine's."""

MIN_JUDGED_TOKENS = 8
"""Shorter answers say too little to be called repetitive."""
_LONGEST_TOKEN_CHARACTERS = 24


@dataclass(frozen=True, kw_only=True)
class RequestRow:
    """The figures of one request, good or failed."""

    stream: int
    serial: int
    """Names the prompt: the same serial and seed give the same prompt."""
    intended_s: float
    """When the load plan wanted it sent; latencies also count from here, so that a late client shows."""
    sent_s: float
    first_byte_s: float | None
    first_token_s: float | None
    """The first non-empty content, reasoning or tool delta."""
    last_token_s: float | None
    done_s: float
    status: int | None
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    chunks: int
    """Deltas with content; an engine may put several tokens into one."""
    longest_gap_s: float
    """Longest time between two chunks."""
    repeats_one_token: bool
    failure: FailureKind | None
    detail: str | None

    @property
    def ttft_s(self) -> float | None:
        """Time to first token, from the intended start."""
        return None if self.first_token_s is None else self.first_token_s - self.intended_s

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first; None for answers of one token."""
        if self.first_token_s is None or self.last_token_s is None or (self.completion_tokens or 0) < 2:
            return None
        return (self.last_token_s - self.first_token_s) / ((self.completion_tokens or 0) - 1)

    @property
    def latency_s(self) -> float:
        """Whole time, from the intended start."""
        return self.done_s - self.intended_s


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A row with the text and the gaps between its chunks, which rows do not keep."""

    row: RequestRow
    text: str
    gaps_s: tuple[float, ...]


def repeats_one_token(text: str, tokens: int) -> bool:
    """Whether the second half of an answer is one token over and over (`!!!!`, ` the the the`, or tokens without text).

    Only a unit that repeats about as often as there are tokens counts: a repeated sentence is a small model's habit,
    not a fault.
    """
    if tokens < MIN_JUDGED_TOKENS:
        return False
    if not text.strip():
        return True
    half = text[len(text) // 2 :]
    period = _period(half)
    if period > _LONGEST_TOKEN_CHARACTERS or period == len(half):
        return False
    return len(half) / period >= 0.8 * (tokens / 2)


def _period(text: str) -> int:
    """The smallest p such that every character equals the one p before it (Knuth, Morris and Pratt's failure
    function)."""
    border = [0] * len(text)
    length = 0
    for index in range(1, len(text)):
        while length and text[index] != text[length]:
            length = border[length - 1]
        if text[index] == text[length]:
            length += 1
        border[index] = length
    return len(text) - border[-1]


def percentile(values: Sequence[float], share: float) -> float | None:
    """The nearest-rank percentile: the smallest value that at least `share` (0 to 1) of all do not exceed. None when
    empty."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
