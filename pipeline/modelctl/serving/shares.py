"""One process's share of a load, and what came of it."""

from __future__ import annotations

import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from modelctl.serving.answers import Answer, RequestRow
from modelctl.serving.client import EngineClient
from modelctl.serving.plan import LoadPlan

GIVE_UP_AFTER = 3
"""Refused connections in a row after which a stream takes the engine for gone; at a rate, seconds of nothing else."""
_KEPT_GAPS = 1 << 21


@dataclass(frozen=True, kw_only=True)
class Share:
    """Process number `index` of `of`."""

    index: int = 0
    of: int = 1

    def has(self, number: int) -> bool:
        """Whether a stream or an arrival is this process's."""
        return number % self.of == self.index


@dataclass(kw_only=True)
class Gaps:
    """Inter-chunk latencies in seconds: all up to two million, then evenly thinned, so that memory stays bounded."""

    values: array.array[float] = field(default_factory=lambda: array.array("f"))
    limit: int = _KEPT_GAPS
    stride: int = 1
    """Every how manieth is kept."""
    _seen: int = 0

    def extend(self, gaps: Sequence[float]) -> None:
        """Take the gaps of one answer."""
        self.values.extend(gaps[-self._seen % self.stride :: self.stride])
        self._seen += len(gaps)
        if len(self.values) > self.limit:
            self.values = self.values[::2]
            self.stride *= 2


def merged(gaps: Sequence[Gaps]) -> Sequence[float]:
    """The gaps of all processes, thinned alike."""
    stride = max(each.stride for each in gaps)
    whole = array.array("f")
    for each in gaps:
        whole.extend(each.values[:: stride // each.stride])
    return whole


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What a process has done so far."""

    answered: int = 0
    failed: int = 0
    gave_up: str | None = None


@dataclass(kw_only=True)
class Driven:
    """What one process's share came to so far."""

    rows: list[RequestRow] = field(default_factory=list)
    gaps: Gaps = field(default_factory=Gaps)
    lags: array.array[float] = field(default_factory=lambda: array.array("f"))
    failed: int = 0
    gave_up: str | None = None
    """Why it ended early."""
    stopped: bool = False
    """Told to end early."""
    cpu_share: float = 0.0
    """Of one core, from the first request to the last answer."""

    @property
    def counts(self) -> Counts:
        """Live figures."""
        return Counts(answered=len(self.rows) - self.failed, failed=self.failed, gave_up=self.gave_up)

    @property
    def ending(self) -> bool:
        """Whether nothing more is to be sent."""
        return self.stopped or self.gave_up is not None

    def take(self, answer: Answer) -> None:
        """Count one finished request."""
        self.rows.append(answer.row)
        if answer.row.failure is None:
            self.gaps.extend(answer.gaps_s)
        else:
            self.failed += 1


async def send(
    client: EngineClient, prompt: str | Sequence[int], plan: LoadPlan, serial: int, stream: int, intended_s: float
) -> Answer:
    """One request as the plan wants it."""
    return await client.complete(
        prompt,
        answer_tokens=plan.answer_tokens,
        exact_answer=plan.exact_answer,
        stream=stream,
        serial=serial,
        intended_s=intended_s,
        api=plan.api,
        image=plan.image,
    )


def gone(row: RequestRow) -> str:
    """Why a load ended early."""
    return f"the engine takes no connections: {row.detail}"
