from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError
from modelctl.serving.answers import RequestRow
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint
from tests.support.engine import FaultEngine, Faults


def complete(endpoint: Endpoint, *, silence_s: float = 60.0, limit_s: float = 60.0, tokens: int = 8) -> RequestRow:
    async def run() -> RequestRow:
        async with EngineClient(endpoint, silence_limit_s=silence_s, time_limit_s=limit_s) as client:
            return (await client.complete("one two three", answer_tokens=tokens, exact_answer=True)).row

    return asyncio.run(run())


def test_an_answer_over_a_unix_socket(tmp_path: Path) -> None:
    with FaultEngine(tmp_path) as engine:
        row = complete(engine.endpoint)
        body = engine.requests[0]
    assert (row.failure, row.status, row.prompt_tokens, row.completion_tokens) == (None, 200, 3, 8)
    assert row.ttft_s is not None
    assert 0 < row.ttft_s < row.latency_s
    assert body["stream_options"] == {"include_usage": True}
    assert body["temperature"] == 0
    assert body["ignore_eos"] is True


def test_a_refusal_shows_the_engines_words(tmp_path: Path) -> None:
    with FaultEngine(tmp_path, max_model_len=8) as engine:
        row = complete(engine.endpoint)
    assert (row.failure, row.status) == ("http", 400)
    assert row.detail == "HTTP 400: the maximum context length is 8 tokens, you asked for 11"


def test_silence_and_slowness_are_told_apart(tmp_path: Path) -> None:
    with FaultEngine(tmp_path, Faults(stalls_after=3)) as engine:
        assert complete(engine.endpoint, silence_s=0.3).failure == "stalled"
        assert complete(engine.endpoint, limit_s=0.3).failure == "timeout"


def test_an_engine_that_dies_during_an_answer_cuts_it(tmp_path: Path) -> None:
    with FaultEngine(tmp_path, Faults(dies_at=5)) as engine:
        assert complete(engine.endpoint).failure in ("cut", "incomplete")
        assert complete(engine.endpoint).failure == "connect"


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", None])
def test_nobody_there_is_a_row_for_a_load_and_an_error_for_a_question(tmp_path: Path, endpoint: str | None) -> None:
    nobody = Endpoint(
        base_url=endpoint or "http://engine", model="m", max_model_len=None, socket=None if endpoint else tmp_path / "s"
    )
    assert complete(nobody).failure == "connect"

    async def ask() -> None:
        async with EngineClient(nobody) as client:
            await client.get_json("/v1/models")

    with pytest.raises(CannotDecideError, match="no answer from"):
        asyncio.run(ask())


@pytest.mark.slow
def test_more_requests_at_once_than_common_connection_limits(tmp_path: Path) -> None:
    async def run(endpoint: Endpoint) -> list[RequestRow]:
        async with EngineClient(endpoint) as client:
            answers = [client.complete("one two", answer_tokens=100, exact_answer=True) for _ in range(150)]
            return [answer.row for answer in await asyncio.gather(*answers)]

    with FaultEngine(tmp_path, token_s=0.02) as engine:
        rows = asyncio.run(run(engine.endpoint))
    assert all(row.failure is None for row in rows)
    assert max(row.sent_s for row in rows) < min(row.done_s for row in rows)
