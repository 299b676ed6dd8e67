"""Prompts of a wanted length in tokens, every one different from its first sentence on.

A shared beginning would be answered from the engine's prefix cache and make every figure too good. The text is plain
sentences, since on strings of unrelated words even a sound model falls into repeating one of them. With the engine's
`/tokenize` lengths are exact: the phrases are tokenised once and prompts are put together from token ids. Without it
a prompt is text, and its length is what the engine's own `usage` said of two samples.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass

from modelctl.errors import CannotDecideError
from modelctl.serving.bodies import Api
from modelctl.serving.client import EngineClient

_TIMES = (
    "Yesterday,In spring,At noon,One evening,Last winter,Before dawn,On Monday,After lunch,During the storm,Long ago,"
    "Every summer,Around midnight,This morning,In autumn,On her birthday,Last year,After the war,On Friday,"
    "At sunset,Two days later"
)
_SUBJECTS = (
    "farmer,teacher,captain,doctor,student,painter,queen,knight,rabbit,baker,sailor,nurse,singer,hunter,miller,"
    "tailor,gardener,shepherd,writer,judge,soldier,dancer,pilot,merchant,fisherman,carpenter,librarian,king,cook,"
    "blacksmith,neighbor,uncle,clerk,driver,engineer,monk,potter,mayor,widow,guard"
)
_ACTIONS = (
    "carried a basket,found an old lantern,repaired the broken mirror,lost a silver ring,sold a warm jacket,"
    "painted a blue door,read a long letter,hid a small candle,built a wooden ladder,played the guitar,"
    "bought fresh bread,dropped a glass bottle,counted the yellow flowers,watched a quiet bird,opened a heavy box,"
    "wrote a short song,cleaned the copper kettle,planted an apple tree,caught a large fish,drew a careful map,"
    "told a strange story,cooked a simple soup,rang the iron bell,borrowed a sharp knife,mended a torn coat,"
    "met a kind stranger,forgot a black umbrella,heard a distant drum,followed a narrow path,washed a white horse"
)
_PLACES = (
    "near the river,at the market,in the forest,behind the mill,on the island,in the harbor,beside the tower,"
    "in the kitchen,under the bridge,at the station,in the village,on the hill,inside the library,by the old well,"
    "across the valley,in the garden,at the castle,along the coast,outside the church,in the meadow,by the lake,"
    "above the shop,near the school,at the fountain,in the cellar,on the roof,behind the barn,at the border,"
    "in the desert,beyond the gate"
)
PHRASES = (
    tuple(f" {time}" for time in _TIMES.split(",")),
    tuple(f" the {subject}" for subject in _SUBJECTS.split(",")),
    tuple(f" {action}" for action in _ACTIONS.split(",")),
    tuple(f" {place}." for place in _PLACES.split(",")),
)
"""The parts of a sentence in their order: 20 * 40 * 30 * 30 first sentences before one comes again."""
_CALIBRATION_WORDS = (64, 192)


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """What to send: token ids (exact length) or text."""

    serial: int
    content: tuple[int, ...] | str


class PromptMaker:
    """Makes prompts for one engine; get one from `prompt_maker`."""

    def __init__(
        self,
        *,
        seed: int,
        start: tuple[int, ...] = (),
        phrases: dict[str, tuple[int, ...]] | None = None,
        tokens_per_word: float = 1.0,
    ) -> None:
        """`start` are the ids that the tokenizer puts before every text; `phrases` the ids of each phrase, when
        known."""
        self.exact = phrases is not None
        """Whether lengths are exact."""
        self._seed = seed
        self._start = start
        self._phrases = phrases
        self._tokens_per_word = tokens_per_word

    def make(self, serial: int, tokens: int) -> Prompt:
        """The prompt number `serial` with `tokens` tokens; the same serial and seed give the same prompt.

        Beyond its first sentence a prompt of another length has other words; for the same ending use `tail`.
        """
        phrases = self._text(serial, tokens)
        if self._phrases is None:
            return Prompt(serial=serial, content=_words(phrases, self._word_count(tokens)))
        ids = list(self._start)
        while len(ids) < tokens:
            ids += self._phrases[next(phrases)]
        return Prompt(serial=serial, content=tuple(ids[:tokens]))

    def tail(self, prompt: Prompt, tokens: int) -> Prompt:
        """The last `tokens` tokens of a prompt: the same question with less before it."""
        if isinstance(prompt.content, str):
            words = prompt.content.split()[-self._word_count(tokens) :]
            return Prompt(serial=prompt.serial, content=" ".join(words))
        kept = max(0, tokens - len(self._start))
        return Prompt(serial=prompt.serial, content=self._start[:tokens] + prompt.content[len(prompt.content) - kept :])

    def _word_count(self, tokens: int) -> int:
        return max(1, round(tokens / self._tokens_per_word))

    def _text(self, serial: int, tokens: int) -> Iterator[str]:
        """Phrases without end: the first sentence spells the serial number, the others are drawn."""
        number = serial + self._seed
        for choices in PHRASES:
            number, index = divmod(number, len(choices))
            yield choices[index]
        chooser = random.Random(f"{self._seed}/{serial}/{tokens}")  # noqa: S311 - words of a test prompt, no secret
        while True:
            for choices in PHRASES:
                yield chooser.choice(choices)


async def prompt_maker(client: EngineClient, *, seed: int, api: Api = "completions") -> PromptMaker:
    """Learn how the engine counts tokens. Raises `CannotDecideError` when it neither tokenises nor reports usage.

    `api` is what it is asked by where it has no `/tokenize`.
    """
    start = await tokenize(client, "", special=True)
    if start is not None:
        texts = [phrase for choices in PHRASES for phrase in choices]
        parts = await asyncio.gather(*(tokenize(client, text, special=False) for text in texts))
        phrases = {text: part for text, part in zip(texts, parts, strict=True) if part}
        if len(phrases) == len(texts):
            return PromptMaker(seed=seed, start=start, phrases=phrases)
    sample = PromptMaker(seed=seed)
    counts = []
    for words in _CALIBRATION_WORDS:
        answer = await client.complete(sample.make(0, words).content, answer_tokens=1, exact_answer=False, api=api)
        if answer.row.prompt_tokens is None:
            raise CannotDecideError(
                f"{client.endpoint.base_url}: the engine neither tokenises nor reports usage: {answer.row.detail}",
                remedy="serve with an engine that answers stream_options.include_usage",
            )
        counts.append(answer.row.prompt_tokens)
    slope = (counts[1] - counts[0]) / (_CALIBRATION_WORDS[1] - _CALIBRATION_WORDS[0])
    return PromptMaker(seed=seed, tokens_per_word=max(slope, 0.1))


def _words(phrases: Iterator[str], count: int) -> str:
    words: list[str] = []
    while len(words) < count:
        words += next(phrases).split()
    return " ".join(words[:count])


async def tokenize(client: EngineClient, text: str, *, special: bool) -> tuple[int, ...] | None:
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
