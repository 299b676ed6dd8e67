"""Sends prompts of growing length, one at a time, and sees what each did to the engine."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from modelctl.checks.stress.session import Notes, counted, died, exact_answers
from modelctl.progress import Task
from modelctl.serving.answers import Answer, RequestRow
from modelctl.serving.client import EngineClient
from modelctl.serving.metrics import EngineMetrics, Scraper, fetch_metrics
from modelctl.serving.prompts import PromptMaker

_TEXT_MARGIN = 0.05
"""Without exact token counts a text stays this share under the length that is meant."""
_TEXT_EXCESS = 1.2


@dataclass(kw_only=True)
class LengthSeen:
    """What one length did. Times in seconds, of good answers only."""

    length: int
    """Prompt and answer, in tokens."""
    prompt_tokens: int
    ttfts_s: list[float] = field(default_factory=list)
    tpots_s: list[float] = field(default_factory=list)
    peak_blocks: float | None = None
    block_size: int | None = None
    readings: int = 0
    crowded: bool = False
    """More than this one request ran."""
    complete: bool = False


@dataclass(kw_only=True)
class LengthWalk:
    """One walk over the lengths; `seen` and `rows` hold what it saw, findings go to `notes`."""

    client: EngineClient
    prompts: PromptMaker
    notes: Notes
    maximum: int
    answer_tokens: int
    reference_tokens: int
    per_length: int
    scrape_s: float
    seen: list[LengthSeen] = field(default_factory=list)
    rows: list[RequestRow] = field(default_factory=list)
    before: EngineMetrics | None = None
    after: EngineMetrics | None = None
    _serials: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def preempted(self) -> float | None:
        """Preemptions during the walk; None when the engine does not count them."""
        if self.before is None or self.after is None:
            return None
        return counted(self.before.preemptions, self.after.preemptions)

    async def run(self, lengths: Sequence[int], task: Task) -> None:
        """Try every length until one fails, then one prompt that is too long."""
        if not self.prompts.exact:
            self.notes.warnings.append(
                f"the engine has no /tokenize: prompts are up to {_TEXT_MARGIN:.0%} shorter than the lengths named"
            )
        self.before = await fetch_metrics(self.client)
        whole = True
        for length in lengths:
            task.describe(f"{length} tokens")
            if not await self._try(length, task):
                whole = False
                break
        self.after = await fetch_metrics(self.client)
        if whole:
            task.describe(f"over {self.maximum} tokens")
            await self._too_long()
            task.advance()

    async def _try(self, length: int, task: Task) -> bool:
        asked = length - self.answer_tokens
        if not self.prompts.exact:
            asked = int(asked * (1 - _TEXT_MARGIN))
        seen = LengthSeen(length=length, prompt_tokens=asked)
        self.seen.append(seen)
        strange = 0
        for _ in range(self.per_length):
            prompt = self.prompts.make(next(self._serials), asked)
            async with Scraper(self.client, interval_s=self.scrape_s) as scraper:
                answer = await self._send(prompt.content, prompt.serial)
            _read(seen, scraper.readings)
            if answer.row.failure is not None:
                await self._failed(length, answer.row)
                return False
            if self.prompts.exact and answer.row.prompt_tokens != asked:
                self.notes.find(
                    "truncated",
                    f"{asked} prompt tokens were sent and the engine counted {answer.row.prompt_tokens}",
                    "serve with an engine that takes the whole prompt, or state a smaller max_model_len",
                )
                return False
            seen.ttfts_s.append(answer.row.ttft_s if answer.row.ttft_s is not None else answer.row.latency_s)
            if answer.row.tpot_s is not None:
                seen.tpots_s.append(answer.row.tpot_s)
            if answer.row.repeats_one_token:
                reference = self.prompts.tail(prompt, min(self.reference_tokens, asked))
                alone = await self._send(reference.content, prompt.serial)
                strange += alone.row.failure is None and not alone.row.repeats_one_token
            task.advance()
        seen.complete = True
        if strange > self.per_length / 2:
            self.notes.find(
                "degenerate",
                f"{strange} of {self.per_length} answers at {length} tokens repeat one token, though "
                f"the same question in {self.reference_tokens} tokens is answered: the stated length does not hold",
                f"state a max_model_len under {length}, or mend the rope scaling in config.json",
            )
        return True

    async def _send(self, content: str | tuple[int, ...], serial: int) -> Answer:
        answer = await self.client.complete(
            content,
            answer_tokens=self.answer_tokens,
            exact_answer=exact_answers(self.client.endpoint),
            serial=serial,
        )
        self.rows.append(answer.row)
        return answer

    async def _failed(self, length: int, row: RequestRow) -> None:
        where = f"at {length} tokens of a stated maximum of {self.maximum}"
        if row.status is not None and 400 <= row.status < 500:
            self.notes.find(
                "rejected",
                f"{where} the engine refuses the request: {row.detail}",
                f"state a max_model_len under {length}, or start the engine with one of {self.maximum}",
            )
            return
        reason = await died(self.client)
        if reason is not None:
            self.notes.find(
                "engine-died",
                f"the engine died {where}: {reason}",
                f"state a max_model_len under {length}; see engine.log in the evidence",
            )
        else:
            self.notes.find(
                "failed-request",
                f"{where} a request failed: {row.failure}: {row.detail}",
                "see engine.log and requests.jsonl.gz in the evidence",
            )

    async def _too_long(self) -> None:
        """A prompt of one token more than the maximum must be refused cleanly, and the engine must go on."""
        maximum = max(self.maximum, self.client.endpoint.max_model_len or 0)
        asked = maximum + 1 if self.prompts.exact else int(maximum * _TEXT_EXCESS)
        answer = await self._send(self.prompts.make(next(self._serials), asked).content, -1)
        row = answer.row
        if row.failure is None:
            self.notes.find(
                "over-maximum",
                f"a prompt of {asked} tokens was answered as if it fitted, though the maximum is {maximum} "
                f"(the engine counted {row.prompt_tokens} prompt tokens)",
                "start the engine with --max-model-len, so that what is too long is refused and not cut",
            )
        elif row.status is None or not 400 <= row.status < 500:
            self.notes.find(
                "over-maximum",
                f"a prompt of {asked} tokens is not refused cleanly (wanted: HTTP 400): {row.detail}",
                "see engine.log in the evidence",
            )
        next_asked = min(self.reference_tokens, maximum - self.answer_tokens)
        following = await self._send(self.prompts.make(next(self._serials), next_asked).content, -1)
        if following.row.failure is not None:
            self.notes.find(
                "engine-died",
                f"after a request that was too long the engine answers no more: {following.row.detail}",
                "see engine.log in the evidence",
            )


def _read(seen: LengthSeen, readings: Sequence[EngineMetrics]) -> None:
    busy = [reading for reading in readings if reading.running]
    used = [reading.kv_blocks_used for reading in busy if reading.kv_blocks_used is not None]
    seen.readings += len(busy)
    seen.peak_blocks = max([*used, seen.peak_blocks or 0.0]) if used else seen.peak_blocks
    seen.block_size = next((reading.block_size for reading in busy if reading.block_size is not None), seen.block_size)
    seen.crowded = seen.crowded or any((reading.running or 0) > 1 for reading in busy)
