from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError
from modelctl.serving.client import EngineClient
from modelctl.serving.prompts import PHRASES, PromptMaker, prompt_maker
from tests.support.engine import FaultEngine, Faults


def with_maker(folder: Path, faults: Faults, use: Callable[[PromptMaker], None]) -> None:
    async def run(engine: FaultEngine) -> None:
        async with EngineClient(engine.endpoint) as client:
            use(await prompt_maker(client, seed=3))

    with FaultEngine(folder, faults) as engine:
        asyncio.run(run(engine))


def test_lengths_are_exact_and_prompts_repeatable(tmp_path: Path) -> None:
    def use(maker: PromptMaker) -> None:
        assert maker.exact
        for tokens in (1, 7, 64, 1000):
            assert len(maker.make(5, tokens).content) == tokens
        assert maker.make(5, 64) == maker.make(5, 64)
        assert maker.make(5, 64) != maker.make(6, 64)

    with_maker(tmp_path, Faults(), use)


def test_a_tail_ends_as_the_prompt_does(tmp_path: Path) -> None:
    def use(maker: PromptMaker) -> None:
        prompt = maker.make(5, 200)
        assert maker.tail(prompt, 50).content == prompt.content[-50:]

    with_maker(tmp_path, Faults(), use)


def test_no_two_of_many_prompts_share_their_first_sentence() -> None:
    phrases = {text: (hash(text),) for choices in PHRASES for text in choices}
    maker = PromptMaker(seed=0, phrases=phrases)
    assert len({maker.make(serial, 4).content for serial in range(20_000)}) == 20_000


def test_special_tokens_at_the_start_count() -> None:
    maker = PromptMaker(seed=0, start=(1,), phrases={text: (7, 8) for choices in PHRASES for text in choices})
    assert maker.make(0, 6).content == (1, 7, 8, 7, 8, 7)
    assert maker.tail(maker.make(0, 6), 3).content == (1, 8, 7)


def test_without_tokenize_the_length_comes_from_usage(tmp_path: Path) -> None:
    def use(maker: PromptMaker) -> None:
        assert not maker.exact
        text = maker.make(1, 100).content
        assert isinstance(text, str)
        assert len(text.split()) == 100  # the fault engine counts words

    with_maker(tmp_path, Faults(no_tokenize=True), use)


def test_an_engine_that_says_nothing_of_tokens_cannot_be_measured(tmp_path: Path) -> None:
    with pytest.raises(CannotDecideError, match="neither tokenises nor reports usage"):
        with_maker(tmp_path, Faults(no_tokenize=True, no_usage=True), lambda _: None)
