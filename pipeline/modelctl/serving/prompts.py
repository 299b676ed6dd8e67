"""Prompts of a wanted length in tokens, every one different from its first words on.

A shared beginning would be answered from the engine's prefix cache and make every figure too good. With the engine's
`/tokenize` lengths are exact: the words are tokenised once and prompts are put together from token ids. Without it a
prompt is text, and its length is what the engine's own `usage` said of two samples.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from modelctl.errors import CannotDecideError
from modelctl.serving.client import EngineClient

_WORD_LIST = (
    " river stone garden window letter mountain winter number farmer bridge market silver engine paper forest doctor"
    " island morning teacher copper village summer captain mirror harbor candle planet station hammer kitchen valley"
    " student basket cotton dragon evening finger guitar history insect jacket ladder meadow needle ocean painter"
    " rabbit shadow ticket uncle violin wagon yellow anchor butter circle desert eagle flower glass honey iron journey"
    " knight lemon magnet night orange pepper queen rocket sugar tower umbrella voice water zebra apple bottle clock"
    " opens carries follows builds remembers paints crosses answers finds breaks measures repairs visits leaves hears"
    " begins turns counts keeps sends old quiet heavy bright narrow careful distant hidden broken early gentle green"
    " near behind under before across without until because while"
)
WORDS = tuple(_WORD_LIST.split())
_SIGNATURE_WORDS = 6
"""Words that spell the serial number, so that no two prompts of a run share their first block of tokens."""
_CALIBRATION_WORDS = (64, 192)


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """What to send: token ids (exact length) or text."""

    serial: int
    content: tuple[int, ...] | str


class PromptMaker:
    """Makes prompts for one engine; get one from `prompt_maker`."""

    def __init__(
        self, *, seed: int, start: tuple[int, ...], words: tuple[tuple[int, ...], ...] | None, tokens_per_word: float
    ) -> None:
        self.exact = words is not None
        """Whether lengths are exact."""
        self._seed = seed
        self._start = start
        self._words = words
        self._tokens_per_word = tokens_per_word

    def make(self, serial: int, tokens: int) -> Prompt:
        """The prompt number `serial` with `tokens` tokens; the same serial and seed give the same prompt.

        Beyond its first six words a prompt of another length has other words; for the same ending use `tail`.
        """
        if self._words is None:
            count = max(1, round(tokens / self._tokens_per_word))
            return Prompt(
                serial=serial, content=" ".join(WORDS[index] for index in self._indexes(serial, tokens, count))
            )
        ids: list[int] = []
        for index in self._indexes(serial, tokens, tokens):
            ids += self._words[index]
            if len(ids) >= tokens:
                break
        return Prompt(serial=serial, content=self._start[:tokens] + tuple(ids[: max(0, tokens - len(self._start))]))

    def tail(self, prompt: Prompt, tokens: int) -> Prompt:
        """The last `tokens` tokens of a prompt: the same question with less before it."""
        if isinstance(prompt.content, str):
            count = max(1, round(tokens / self._tokens_per_word))
            return Prompt(serial=prompt.serial, content=" ".join(prompt.content.split(" ")[-count:]))
        kept = max(0, tokens - len(self._start))
        return Prompt(serial=prompt.serial, content=self._start[:tokens] + prompt.content[len(prompt.content) - kept :])

    def _indexes(self, serial: int, tokens: int, count: int) -> list[int]:
        chooser = random.Random(f"{self._seed}/{serial}/{tokens}")  # noqa: S311 - words of a test prompt, no secret
        signature = [(serial // len(WORDS) ** place + self._seed) % len(WORDS) for place in range(_SIGNATURE_WORDS)]
        return (signature + chooser.choices(range(len(WORDS)), k=max(0, count - _SIGNATURE_WORDS)))[:count]


async def prompt_maker(client: EngineClient, *, seed: int) -> PromptMaker:
    """Learn how the engine counts tokens. Raises `CannotDecideError` when it neither tokenises nor reports usage."""
    start = await _tokenize(client, "", special=True)
    if start is not None:
        parts = await asyncio.gather(*(_tokenize(client, f" {word}", special=False) for word in WORDS))
        words = tuple(part for part in parts if part)
        if len(words) == len(WORDS):
            return PromptMaker(seed=seed, start=start, words=words, tokens_per_word=1.0)
    counts = []
    for number in _CALIBRATION_WORDS:
        text = " ".join(WORDS[index % len(WORDS)] for index in range(number))
        answer = await client.complete(text, answer_tokens=1, exact_answer=False)
        if answer.row.prompt_tokens is None:
            raise CannotDecideError(
                f"{client.endpoint.base_url}: the engine neither tokenises nor reports usage: {answer.row.detail}",
                remedy="serve with an engine that answers stream_options.include_usage",
            )
        counts.append(answer.row.prompt_tokens)
    slope = (counts[1] - counts[0]) / (_CALIBRATION_WORDS[1] - _CALIBRATION_WORDS[0])
    return PromptMaker(seed=seed, start=(), words=None, tokens_per_word=max(slope, 0.1))


async def _tokenize(client: EngineClient, text: str, *, special: bool) -> tuple[int, ...] | None:
    """The ids of a text, or None when the engine has no /tokenize."""
    try:
        status, answer = await client.post_json(
            "/tokenize", {"model": client.endpoint.model, "prompt": text, "add_special_tokens": special}
        )
    except CannotDecideError:
        return None
    tokens = answer.get("tokens") if isinstance(answer, dict) and status == 200 else None
    if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
        return None
    return tuple(tokens)
