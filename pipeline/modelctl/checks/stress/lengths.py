"""Sends prompts of growing length, one at a time, and sees what each did to the engine; a failure is narrowed down.

The walk ends at the first length that is not served, since a longer one only fails again. What breaks there is told
with the cliff, unless the engine is dead, hangs or was restarted: then no more is asked of it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from modelctl.checks.stress.cliff import Cliff, Probe, find_cliff
from modelctl.checks.stress.session import Notes, counted, died, exact_answers, restarted
from modelctl.progress import Task
from modelctl.serving.answers import Answer, RequestRow
from modelctl.serving.bodies import Api
from modelctl.serving.client import EngineClient
from modelctl.serving.memory import MemoryWatch
from modelctl.serving.metrics import EngineMetrics, Scraper, fetch_metrics
from modelctl.serving.prompts import PromptMaker

_TEXT_MARGIN = 0.05
"""Without exact token counts a text stays this share under the length that is meant."""
_STEP_UNKNOWN = 16
"""Tokens between what works and what fails, where the engine does not say its block size."""
_HANGS = ("stalled", "timeout")


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Why a length is not served: the finding to be made of it."""

    rule: str
    message: str
    remedy: str
    """`{fails}` in it stands for the shortest length that fails."""
    ended: str | None = None
    """Why nothing more can be asked of the engine, if so."""


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
    memory_bytes: int | None = None
    """Peak of the engine's memory meanwhile; None: not read."""
    trouble: Trouble | None = None

    @property
    def complete(self) -> bool:
        """Whether every prompt of it was answered, sanely or not."""
        return self.trouble is None or self.trouble.rule == "degenerate"


@dataclass(kw_only=True)
class LengthWalk:
    """One walk over the lengths; `seen` and `rows` hold what it saw, findings go to `notes`."""

    client: EngineClient
    prompts: PromptMaker
    notes: Notes
    maximum: int
    answer_tokens: int
    """0 for embeddings."""
    reference_tokens: int
    per_length: int
    scrape_s: float
    cliff_step: int | None
    """Tokens; None: one block of the engine."""
    max_cliff_lengths: int
    api: Api
    seen: list[LengthSeen] = field(default_factory=list)
    rows: list[RequestRow] = field(default_factory=list)
    before: EngineMetrics | None = None
    after: EngineMetrics | None = None
    cliff: Cliff | None = None
    _serials: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def preempted(self) -> float | None:
        """Preemptions during the walk; None when the engine does not count them."""
        if self.before is None or self.after is None:
            return None
        return counted(self.before.preemptions, self.after.preemptions)

    @property
    def longest(self) -> int:
        """The longest length that was answered well, those between included; 0: none."""
        if self.cliff is not None:
            return self.cliff.works or 0
        return max((seen.length for seen in self.seen), default=0)

    async def run(
        self, lengths: Sequence[int], task: Task, memory: MemoryWatch, *, on_length: Callable[[LengthSeen], None]
    ) -> bool:
        """Try every length until one is not served; whether all were. `on_length` is told of each when it is done."""
        if not self.prompts.exact:
            self.notes.warnings.append(
                f"the engine has no /tokenize: prompts are up to {_TEXT_MARGIN:.0%} shorter than the lengths named"
            )
        self.before = await fetch_metrics(self.client)
        await asyncio.to_thread(memory.take)
        for length in lengths:
            task.describe(f"{length} tokens")
            seen = await self._try(length, task, prompts=self.per_length)
            seen.memory_bytes = await asyncio.to_thread(memory.take)
            self.seen.append(seen)
            on_length(seen)
            if not seen.complete:
                break
        self.after = await fetch_metrics(self.client)
        await self._judge(task)
        return all(seen.complete for seen in self.seen)

    async def _judge(self, task: Task) -> None:
        """Report the first length with a strange answer, and the one that was not served, each with its cliff."""
        ended = next((seen.trouble.ended for seen in self.seen if seen.trouble and seen.trouble.ended), None)
        for strange in (True, False):
            first = next((s for s in self.seen if s.trouble is not None and s.complete is strange), None)
            if first is None or first.trouble is None:
                continue
            cliff = await self._narrow(first, task, ended=ended)
            self.cliff = self.cliff or cliff
            remedy = first.trouble.remedy.format(fails=cliff.fails)
            self.notes.find(first.trouble.rule, f"{first.trouble.message}; {cliff}", remedy)

    async def _narrow(self, first: LengthSeen, task: Task, *, ended: str | None) -> Cliff:
        works = max((s.length for s in self.seen if s.length < first.length and s.complete), default=None)
        if ended is not None:
            return Cliff(works=works, fails=first.length, tried=0, ended=ended)

        async def probe(length: int) -> Probe:
            task.describe(f"{length} tokens: narrowing down")
            found = (await self._try(length, None, prompts=self.per_length if first.complete else 1)).trouble
            if found is not None and found.rule == "engine-died":
                self.notes.find(found.rule, found.message, found.remedy.format(fails=length))
            return "works" if found is None else "dead" if found.ended is not None else "fails"

        step = self.cliff_step or first.block_size or _STEP_UNKNOWN
        return await find_cliff(works, first.length, step=step, most=self.max_cliff_lengths, probe=probe)

    async def _try(self, length: int, task: Task | None, *, prompts: int) -> LengthSeen:
        asked = length - self.answer_tokens
        if not self.prompts.exact:
            asked = int(asked * (1 - _TEXT_MARGIN))
        seen = LengthSeen(length=length, prompt_tokens=asked)
        strange = 0
        for _ in range(prompts):
            prompt = self.prompts.make(next(self._serials), asked)
            async with Scraper(self.client, interval_s=self.scrape_s) as scraper:
                answer = await self.send(prompt.content, prompt.serial)
            _read(seen, scraper.readings)
            if answer.row.failure is not None:
                seen.trouble = await self._failed(length, answer.row)
                return seen
            if self.prompts.exact and answer.row.prompt_tokens != asked:
                seen.trouble = Trouble(
                    rule="truncated",
                    message=f"{asked} prompt tokens were sent and the engine counted {answer.row.prompt_tokens}",
                    remedy="serve with an engine that takes the whole prompt, or state a smaller max_model_len",
                )
                return seen
            written = answer.row.completion_tokens or 0
            if exact_answers(self.client.endpoint) and written < self.answer_tokens:
                seen.trouble = Trouble(
                    rule="truncated",
                    message=f"{self.answer_tokens} tokens of answer were asked for at {length} tokens, {written} came",
                    remedy="state a smaller max_model_len, or start the engine with a larger one",
                )
                return seen
            seen.ttfts_s.append(answer.row.ttft_s if answer.row.ttft_s is not None else answer.row.latency_s)
            if answer.row.tpot_s is not None:
                seen.tpots_s.append(answer.row.tpot_s)
            if answer.row.repeats_one_token:
                reference = self.prompts.tail(prompt, min(self.reference_tokens, asked))
                alone = await self.send(reference.content, prompt.serial)
                strange += alone.row.failure is None and not alone.row.repeats_one_token
            if task is not None:
                task.advance()
        if strange > prompts / 2:
            seen.trouble = Trouble(
                rule="degenerate",
                message=f"{strange} of {prompts} answers at {length} tokens repeat one token, though the same question "
                f"in {self.reference_tokens} tokens is answered: the stated length does not hold",
                remedy="state a max_model_len under {fails}, or mend the rope scaling in config.json",
            )
        return seen

    async def send(self, content: str | tuple[int, ...], serial: int) -> Answer:
        """Send one prompt; its row is kept."""
        answer = await self.client.complete(
            content,
            answer_tokens=self.answer_tokens,
            exact_answer=exact_answers(self.client.endpoint),
            serial=serial,
            api=self.api,
        )
        self.rows.append(answer.row)
        return answer

    def fresh(self, tokens: int) -> str | tuple[int, ...]:
        """A prompt that was not sent before."""
        return self.prompts.make(next(self._serials), tokens).content

    async def _failed(self, length: int, row: RequestRow) -> Trouble:
        where = f"at {length} tokens of a stated maximum of {self.maximum}"
        if row.status is not None and 400 <= row.status < 500:
            return Trouble(
                rule="rejected",
                message=f"{where} the engine refuses the request: {row.detail}",
                remedy=f"state a max_model_len under {{fails}}, or start the engine with one of {self.maximum}",
            )
        reason = await died(self.client)
        if reason is not None:
            return Trouble(
                rule="engine-died",
                message=f"the engine died {where}: {reason}",
                remedy="state a max_model_len under {fails}; see engine.log in the evidence",
                ended="the engine is dead",
            )
        ended = "a request that hangs is not sent again" if row.failure in _HANGS else None
        if restarted(self.before, await fetch_metrics(self.client)):
            ended = "the engine was restarted"
        return Trouble(
            rule="failed-request",
            message=f"{where} a request failed: {row.failure}: {row.detail}",
            remedy="see engine.log and requests.jsonl.gz in the evidence",
            ended=ended,
        )


def _read(seen: LengthSeen, readings: Sequence[EngineMetrics]) -> None:
    busy = [reading for reading in readings if reading.running]
    used = [reading.kv_blocks_used for reading in busy if reading.kv_blocks_used is not None]
    seen.readings += len(busy)
    seen.peak_blocks = max([*used, seen.peak_blocks or 0.0]) if used else seen.peak_blocks
    sizes = (reading.block_size for reading in readings if reading.block_size is not None)
    seen.block_size = next(sizes, seen.block_size)
    seen.crowded = seen.crowded or any((reading.running or 0) > 1 for reading in busy)
