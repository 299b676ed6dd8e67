"""A real vision-language model on the real CPU engine: both checks drive it, by text and by pictures of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelctl.checks import concurrency, long_context
from modelctl.checks.long_context import LongContextLimits
from modelctl.model.release import Serving
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint
from tests.serving.test_real_engine import LOAD, float32_engine
from tests.support.models import tiny_blip2
from tests.support.stress import measured, observe, reasons, rules

pytestmark = pytest.mark.engine

SERVING = Serving(max_model_len=1024, max_num_seqs=4, max_num_batched_tokens=1024)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_blip2(tmp_path_factory.mktemp("vision") / "model", max_positions=1024)


@pytest.fixture(scope="module")
def engine(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with float32_engine(model, SERVING, tmp_path_factory.mktemp("engine")) as endpoint:
        yield endpoint


def test_a_picture_is_seen_and_another_one_is_seen_otherwise(engine: Endpoint) -> None:
    async def ask() -> list[tuple[int | None, str]]:
        async with EngineClient(engine, silence_limit_s=300, time_limit_s=300) as client:
            answers = [
                await client.complete("What is this?", answer_tokens=16, exact_answer=True, serial=serial, api="chat",
                                      image=image)
                for serial, image in ((0, False), (0, True), (0o777, True))
            ]  # fmt: skip
            assert [answer.row.failure for answer in answers] == [None] * 3, answers[1].row.detail
            return [(answer.row.prompt_tokens, answer.text) for answer in answers]

    (blind, _), (first, said), (second, said_of_another) = asyncio.run(ask())
    assert blind is not None
    assert first == second
    assert (first or 0) > blind
    assert said != said_of_another


def test_it_is_served_by_text_up_to_its_maximum(engine: Endpoint, model: Path) -> None:
    limits = LongContextLimits(fractions=(0.5,), prompts_per_length=2, answer_tokens=128, request_time_limit_s=300)
    seen = observe(long_context.CHECK, limits, engine, model=model, serving=SERVING)
    assert set(rules(seen)) <= {"long-context.degenerate"}  # random weights may babble
    assert reasons(seen) == ""
    assert measured(seen, "longest-answered") == 1024


def test_streams_with_a_picture_before_every_text_are_answered(engine: Endpoint, model: Path) -> None:
    limits = LOAD.model_copy(update={"images": True, "duration_s": 5})
    seen = observe(concurrency.CHECK, limits, engine, model=model, serving=SERVING)
    assert (rules(seen), reasons(seen)) == ([], "")
    assert measured(seen, "image-tokens") == 4
    assert measured(seen, "failed-requests") == 0
