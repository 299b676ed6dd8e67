"""Chats, embeddings and keys, on a server that has them."""

from __future__ import annotations

import asyncio
import base64
import math
from pathlib import Path
from typing import Any

import pytest

from modelctl.errors import CannotDecideError, InputError
from modelctl.serving.answers import RequestRow
from modelctl.serving.bodies import Api, png
from modelctl.serving.client import EngineClient
from modelctl.serving.endpoint import Endpoint
from tests.support.interfaces import KEY, Interfaces


def ask(server: Interfaces, api: Api, *, endpoint: Endpoint | None = None, image: bool = False) -> RequestRow:
    async def run() -> RequestRow:
        async with server.serving(), EngineClient(endpoint or server.endpoint()) as client:
            answer = await client.complete(
                "one two", answer_tokens=8, exact_answer=False, serial=7, api=api, image=image
            )
            return answer.row

    return asyncio.run(run())


def test_an_embedding_has_latency_and_tokens_and_no_stream(tmp_path: Path) -> None:
    server = Interfaces(tmp_path)
    row = ask(server, "embeddings")
    assert (row.failure, row.prompt_tokens, row.completion_tokens) == (None, 4, None)
    assert (row.ttft_s, row.tpot_s, row.chunks) == (None, None, 0)
    assert row.latency_s > 0
    assert server.asked == [{"model": "base", "input": "one two", "encoding_format": "float"}]


@pytest.mark.parametrize(
    ("body", "failure", "words"),
    [
        ({"data": [], "usage": {"prompt_tokens": 4}}, "no-tokens", "no vector"),
        ({"data": [{"embedding": [1.0, math.nan]}], "usage": {"prompt_tokens": 4}}, "incomplete", "finite"),
        ({"data": [{"embedding": [0.0, 0]}], "usage": {"prompt_tokens": 4}}, "incomplete", "all zeros"),
        ({"data": [{"embedding": [1.0]}]}, "incomplete", "without usage"),
        ({"error": {"message": "worker died"}}, "stream-error", "worker died"),
        ([], "stream-error", "[]"),
    ],
)
def test_an_embedding_that_is_none_is_a_failure(tmp_path: Path, body: Any, failure: str, words: str) -> None:
    server = Interfaces(tmp_path)
    server.embedding = body
    row = ask(server, "embeddings")
    assert row.failure == failure
    assert words in (row.detail or "")


def test_a_chat_is_timed_from_its_first_word_and_carries_a_picture(tmp_path: Path) -> None:
    server = Interfaces(tmp_path)
    row = ask(server, "chat", image=True)
    assert (row.failure, row.chunks, row.completion_tokens) == (None, 1, 2)
    picture, words = server.asked[0]["messages"][0]["content"]
    assert words == {"type": "text", "text": "one two"}
    assert base64.b64decode(picture["image_url"]["url"].removeprefix("data:image/png;base64,")) == png(7)


def test_pictures_are_readable_and_no_two_are_alike() -> None:
    from io import BytesIO

    from PIL import Image

    assert len({png(serial) for serial in range(200)}) == 200
    with Image.open(BytesIO(png(5))) as image:
        image.load()
        assert (image.format, image.size, image.mode) == ("PNG", (56, 56), "RGB")


def test_a_key_is_sent_and_never_shown(tmp_path: Path) -> None:
    server = Interfaces(tmp_path)
    right = server.endpoint()
    assert ask(server, "chat", endpoint=right).failure is None
    assert KEY not in repr(right)
    wrong = server.endpoint(api_key="sk-mistyped-key")
    row = ask(server, "chat", endpoint=wrong)
    assert (row.failure, row.status) == ("http", 401)
    assert row.detail == "HTTP 401: Incorrect API key provided: ********"
    server.events = [{"error": {"message": f"no quota for {KEY}"}}]
    assert KEY not in (ask(server, "chat").detail or "")


def test_a_key_that_no_header_takes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line break"):
        ask(Interfaces(tmp_path), "chat", endpoint=Interfaces(tmp_path).endpoint(api_key="a\nb"))


def test_a_redirect_is_not_followed_with_the_key(tmp_path: Path) -> None:
    from aiohttp import web

    async def run() -> RequestRow:
        async def elsewhere(_request: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect("http://127.0.0.1:9/v1/chat/completions")

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", elsewhere)
        runner = web.AppRunner(app)
        await runner.setup()
        server = Interfaces(tmp_path)
        await web.UnixSite(runner, str(server.socket)).start()
        try:
            async with EngineClient(server.endpoint()) as client:
                with pytest.raises(CannotDecideError, match="307"):
                    await client.get_json("/v1/models")
                return (await client.complete("one", answer_tokens=8, exact_answer=False)).row
        finally:
            await runner.cleanup()

    row = asyncio.run(run())
    assert (row.failure, row.status) == ("http", 307)
