"""A server of chats, embeddings and adapters that asks for a key; what it answers to each can be set."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from modelctl.serving.endpoint import Endpoint

KEY = "sk-very-secret"
VECTOR = [0.5, -0.25, 0.125]


class Interfaces:
    """What was asked, and what is answered."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "s"
        self.asked: list[dict[str, Any]] = []
        self.answer_s = 0.0
        """How long an embedding takes."""
        self.embedding: Any = {"data": [{"embedding": VECTOR}], "usage": {"prompt_tokens": 4}}
        self.events: list[dict[str, Any]] = [
            {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
            {"choices": [{"delta": {"content": "blue"}}]},
            {"choices": [{"delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
        ]

    def endpoint(self, *, api_key: str | None = KEY, model: str = "base") -> Endpoint:
        return Endpoint(base_url="http://engine", model=model, max_model_len=64, socket=self.socket, api_key=api_key)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Interfaces]:
        app = web.Application(middlewares=[self._asks_for_the_key])
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/embeddings", self._embeddings)
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app, shutdown_timeout=0.05)
        await runner.setup()
        await web.UnixSite(runner, str(self.socket)).start()
        try:
            yield self
        finally:
            await runner.cleanup()

    @web.middleware
    async def _asks_for_the_key(self, request: web.Request, handler: Any) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if given != KEY:
            return web.json_response({"error": {"message": f"Incorrect API key provided: {given}"}}, status=401)
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _models(self, _request: web.Request) -> web.Response:
        listed = [{"id": "base", "max_model_len": 64}, {"id": "adapter", "parent": "base", "max_model_len": 32}]
        return web.json_response({"data": listed})

    async def _embeddings(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        await asyncio.sleep(self.answer_s)
        return web.Response(text=json.dumps(self.embedding), content_type="application/json")

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(await request.json())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in self.events:
            await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response
