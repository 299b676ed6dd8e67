"""Looks for answers that belong to another request: every stream asks for a code of its own, all at the same time.

A code of another prompt in an answer is cross-talk. An answer without its own code is judged against the same prompt
alone: a model that gives it alone and not under load is served wrongly there. A model that does not repeat codes at
all can't be judged this way, and the report says so.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from modelctl.checks.base import Scalar
from modelctl.checks.stress.limits import LoadLimits
from modelctl.checks.stress.session import Notes, exact_answers
from modelctl.progress import Task
from modelctl.serving.client import EngineClient
from modelctl.serving.codes import CODE_TOKENS, CodePrompt, code_prompt, codes_in
from modelctl.serving.prompts import PromptMaker

FIRST_SERIAL = 50_000_000
"""Far from the load's prompts, so that none of them is in the prefix cache."""
ALONE = 8
"""Prompts that are asked alone first."""
_NEEDED_ALONE = 6
"""Of them, answers with their own code: fewer, and the model can't be judged by codes."""
_SUSPECTS_TRIED = 20


@dataclass(kw_only=True)
class Crosstalk:
    """What the codes showed."""

    alone: int = 0
    """Of `ALONE` prompts sent alone, answers with their own code."""
    asked: int = 0
    own: int = 0
    mixed: list[str] = field(default_factory=list)
    """Answers with another prompt's code, in words."""
    lost: list[CodePrompt] = field(default_factory=list)
    """Prompts whose answer had no code under load."""
    failed: str | None = None
    """The first failed request, in words."""
    failures: int = 0
    lost_share: float = 0.0
    """Answers without their code under load that have it alone, among all; from a sample."""

    @property
    def judged(self) -> bool:
        """Whether the model repeats codes well enough."""
        return self.alone >= _NEEDED_ALONE


async def look_for_crosstalk(client: EngineClient, prompts: PromptMaker, limits: LoadLimits, task: Task) -> Crosstalk:
    """Ask alone first, then with all streams at once, then the suspects alone again."""
    seen = Crosstalk()
    length = max(16, min(limits.prompt_tokens, limits.prompt_tokens + limits.answer_tokens - CODE_TOKENS))
    for serial in range(ALONE):
        asked = await code_prompt(client, prompts, FIRST_SERIAL + serial, length)
        text = await _answer(client, asked, seen)
        seen.alone += text is not None and asked.code in codes_in(text)
        task.advance()
    if not seen.judged:
        return seen
    first = FIRST_SERIAL + ALONE
    count = limits.streams * limits.code_requests
    todo = [await code_prompt(client, prompts, first + number, length) for number in range(count)]
    codes = {asked.code for asked in todo}

    async def stream(number: int) -> None:
        for asked in todo[number :: limits.streams]:
            text = await _answer(client, asked, seen)
            task.advance()
            if text is not None:
                _sort(asked, text, codes, seen)

    await asyncio.gather(*(stream(number) for number in range(limits.streams)))
    await _ask_suspects(client, seen)
    return seen


def _sort(asked: CodePrompt, text: str, codes: set[str], seen: Crosstalk) -> None:
    seen.asked += 1
    found = codes_in(text)
    others = (found & codes) - {asked.code}
    if others:
        seen.mixed.append(f"the prompt with the code '{asked.code}' was answered with '{min(others)}'")
    elif asked.code in found:
        seen.own += 1
    else:
        seen.lost.append(asked)


async def _ask_suspects(client: EngineClient, seen: Crosstalk) -> None:
    tried = seen.lost[:: max(1, len(seen.lost) // _SUSPECTS_TRIED)][:_SUSPECTS_TRIED]
    only_under_load = 0
    for asked in tried:
        text = await _answer(client, asked, seen)
        only_under_load += text is not None and asked.code in codes_in(text)
    if tried:
        seen.lost_share = only_under_load / len(tried) * len(seen.lost) / seen.asked


async def _answer(client: EngineClient, asked: CodePrompt, seen: Crosstalk) -> str | None:
    answer = await client.complete(
        asked.prompt.content,
        answer_tokens=CODE_TOKENS,
        exact_answer=exact_answers(client.endpoint),
        serial=asked.prompt.serial,
    )
    if answer.row.failure is None:
        return answer.text
    seen.failures += 1
    seen.failed = seen.failed or f"{answer.row.failure}: {answer.row.detail}"
    return None


def judge_crosstalk(limits: LoadLimits, seen: Crosstalk, notes: Notes) -> None:
    """Add the figures, and a finding for answers that were mixed up or lost."""
    how: dict[str, Scalar] = {"streams": limits.streams, "requests": seen.asked, "alone": f"{seen.alone} of {ALONE}"}
    notes.measure("own-code-share", seen.own / seen.asked if seen.asked else None, "", how)
    if seen.failed is not None:
        notes.cannot(
            f"{seen.failures} requests failed while answers were compared; the first: {seen.failed}",
            "see engine.log in the evidence",
        )
    if not seen.judged:
        notes.warnings.append(
            f"cross-talk was not judged: alone this model repeats {seen.alone} of {ALONE} codes, {_NEEDED_ALONE} are "
            "needed to tell its answers apart"
        )
        return
    notes.measure("mixed-up-answers", len(seen.mixed), "", how)
    notes.measure("lost-codes-share", seen.lost_share, "", {**how, "without_code": len(seen.lost)})
    if seen.mixed:
        notes.find(
            "cross-talk",
            f"{len(seen.mixed)} of {seen.asked} answers have the code of another request's prompt: {seen.mixed[0]}",
            "suspect the engine's batching or its KV cache; do not serve with it, and try another version",
        )
    elif seen.lost_share > limits.max_lost_codes_share:
        notes.find(
            "cross-talk",
            f"{seen.lost_share:.1%} of the answers lack the code of their own prompt under load and have it alone; the "
            f"limit is {limits.max_lost_codes_share:.1%} (concurrency.max_lost_codes_share)",
            "suspect the engine's batched kernels for this quantisation; try another kernel or engine version",
        )
