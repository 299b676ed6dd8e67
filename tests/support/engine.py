"""A small OpenAI-compatible engine with settable faults: the misbehaviour that a real engine shows only on a bad day.

It tokenises by words, streams words, keeps vLLM's metrics and does exactly one thing wrong when a fault is set. With
a code that its prompt has said before it goes on, as a model would.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from aiohttp import web

from modelctl.serving.endpoint import Endpoint

WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett", "kilo", "lima")
MODEL = "fault"
IMAGE_TOKENS = 16


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong. Lengths are prompt plus answer in tokens; None or False: nothing."""

    dies_at: int | None = None
    """The engine ends when a request of this length comes, and answers nobody any more."""
    dies_between: tuple[int, int] | None = None
    """The same for lengths from the one to the other."""
    rejects_over: int | None = None
    """400 for anything longer, whatever the stated maximum says."""
    fails_over: int | None = None
    """500 for anything longer."""
    accepts_over_maximum: bool = False
    """Cuts what is too long and answers as if nothing was."""
    shortens_over: int | None = None
    """Answers of anything longer end early, so that the whole is no longer than that."""
    stalls_after: int | None = None
    """A stream says nothing more after so many tokens, while /health stays good."""
    stream_error: bool = False
    """Status 200, then an error inside the stream and [DONE]."""
    no_done: bool = False
    no_usage: bool = False
    babbles_over_streams: int | None = None
    """Answers are `!!!!` while more than so many requests run."""
    babbles_over_length: int | None = None
    babbles_always: bool = False
    waits_over: int | None = None
    """Requests beyond so many wait in the queue."""
    preempts_over_streams: int | None = None
    kv_factor: float = 1.0
    """KV blocks used, against what the length asks for."""
    old_names: bool = False
    """Metrics under the names of earlier releases only."""
    no_metrics: bool = False
    embeds_only: bool = False
    """No fault but another model: vectors from /v1/embeddings, no completions."""
    no_tokenize: bool = False
    cached_share: float = 0.0
    """Prefix cache hits among queries."""
    mixes_up_over_streams: int | None = None
    """Answers go on with the prompt of another request while more than so many run."""
    loses_over_streams: int | None = None
    """Answers do not go on with their prompt while more than so many run."""
    adapters: tuple[str, ...] = ()
    """No fault: names of LoRA adapters that it lists beside its model."""
    drops_images: bool = False
    """Chats are answered as if there was no picture in them."""
    never_copies: bool = False
    """No answer goes on with its prompt: a model too small for it."""
    miscounts: float = 1.0
    """What the server's token counter says, against what it sent."""


class FaultEngine:
    """The engine, on a unix socket in `folder`, in a thread of its own for the time of a `with` block."""

    def __init__(
        self,
        folder: Path,
        faults: Faults = Faults(),
        *,
        max_model_len: int = 512,
        token_s: float = 0.001,
        blocks: int = 1001,
        block_size: int = 16,
    ) -> None:
        self.faults = faults
        self.max_model_len = max_model_len
        self.token_s = token_s
        self.blocks = blocks
        self.block_size = block_size
        self.socket = folder / "s"
        self.requests: list[dict[str, Any]] = []
        self.started_at = time.time()
        self._vocabulary: dict[str, int] = {}
        self._running: dict[int, int] = {}
        self._prompts: dict[int, list[int]] = {}
        self._slots: asyncio.Semaphore | None = None
        self._waiting = 0
        self._totals = dict.fromkeys(("generation", "prompt", "preemptions", "queries", "hits"), 0.0)
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(
            base_url="http://engine",
            model=MODEL,
            max_model_len=self.max_model_len,
            socket=self.socket,
            version="0.0-fault",
        )

    def restart(self) -> None:
        """Look like another process from now on."""
        self.started_at += 100.0

    def __enter__(self) -> FaultEngine:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it ended by itself a moment ago
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        if self.faults.waits_over is not None:
            self._slots = asyncio.Semaphore(self.faults.waits_over)
        app = web.Application(client_max_size=64 << 20)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/version", self._version)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_post("/tokenize", self._tokenize)
        if self.faults.embeds_only:
            app.router.add_post("/v1/embeddings", self._embeddings)
        else:
            app.router.add_post("/v1/completions", self._completions)
            app.router.add_post("/v1/chat/completions", self._completions)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05)
        await runner.setup()
        await web.UnixSite(runner, str(self.socket)).start()
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _models(self, _request: web.Request) -> web.Response:
        adapters = [{"id": name, "parent": MODEL} for name in self.faults.adapters]
        return web.json_response({"data": [{"id": MODEL, "max_model_len": self.max_model_len}, *adapters]})

    async def _version(self, _request: web.Request) -> web.Response:
        return web.json_response({"version": "0.0-fault"})

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _tokenize(self, request: web.Request) -> web.Response:
        if self.faults.no_tokenize:
            raise web.HTTPNotFound
        ids = self._ids((await request.json())["prompt"])
        return web.json_response({"tokens": ids, "count": len(ids)})

    def _ids(self, text: str) -> list[int]:
        return [self._vocabulary.setdefault(word, len(self._vocabulary)) for word in text.split()]

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        prompt = self._chat_ids(body["messages"]) if "messages" in body else body["prompt"]
        prompt = prompt if isinstance(prompt, list) else self._ids(prompt)
        length = len(prompt) + body["max_tokens"]
        refused = await self._refused(length)
        if refused is not None:
            return refused
        key = id(request)
        try:
            if self._slots is None:
                return await self._stream(request, key, prompt, body["max_tokens"])
            self._waiting += 1
            async with self._slots:
                self._waiting -= 1
                return await self._stream(request, key, prompt, body["max_tokens"])
        finally:
            self._running.pop(key, None)
            self._prompts.pop(key, None)

    def _chat_ids(self, messages: list[dict[str, Any]]) -> list[int]:
        """The tokens of a chat: its words, and `IMAGE_TOKENS` for a picture."""
        ids: list[int] = []
        for message in messages:
            content = message["content"]
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                if part["type"] == "text":
                    ids += self._ids(part["text"])
                elif not self.faults.drops_images:
                    ids += self._ids("<image>") * IMAGE_TOKENS
        return ids

    async def _embeddings(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        prompt = body["input"] if isinstance(body["input"], list) else self._ids(body["input"])
        refused = await self._refused(len(prompt))
        if refused is not None:
            return refused
        self._running[id(request)] = len(prompt)
        try:
            await asyncio.sleep(self.token_s * 10)
        finally:
            del self._running[id(request)]
        self._totals["prompt"] += len(prompt) * self.faults.miscounts
        vector = [1.0 / (1 + word) for word in prompt[:8]]
        usage = {"prompt_tokens": len(prompt), "total_tokens": len(prompt)}
        return web.json_response({"data": [{"index": 0, "embedding": vector}], "usage": usage})

    async def _refused(self, length: int) -> web.Response | None:
        """What becomes of a request that is too long, here or by a fault; None: nothing is wrong with it."""
        faults = self.faults
        deadly = faults.dies_at is not None and length >= faults.dies_at
        if faults.dies_between is not None:
            deadly = faults.dies_between[0] <= length <= faults.dies_between[1]
        if deadly and self._stop is not None:
            self._stop.set()
            await asyncio.sleep(5)
        over = length > self.max_model_len and not faults.accepts_over_maximum
        if over or (faults.rejects_over is not None and length > faults.rejects_over):
            message = f"the maximum context length is {self.max_model_len} tokens, you asked for {length}"
            return web.json_response({"error": {"message": message, "param": "input_tokens"}}, status=400)
        if faults.fails_over is not None and length > faults.fails_over:
            return web.json_response({"error": {"message": "the worker has died"}}, status=500)
        return None

    async def _stream(
        self, request: web.Request, key: int, prompt: list[int], answer_tokens: int
    ) -> web.StreamResponse:
        faults = self.faults
        self._running[key] = len(prompt)
        self._prompts[key] = prompt
        self._totals["prompt"] += len(prompt)
        self._totals["queries"] += len(prompt)
        self._totals["hits"] += len(prompt) * faults.cached_share
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)

        async def send(event: dict[str, Any]) -> None:
            await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")

        async def say(word: str, finish_reason: str | None = None) -> None:
            said = {"delta": {"content": word}} if request.path.startswith("/v1/chat") else {"text": word}
            await send({"choices": [{"index": 0, **said, "finish_reason": finish_reason}]})

        await say("")
        copied: list[str] | None = None
        if faults.shortens_over is not None:
            answer_tokens = max(1, min(answer_tokens, faults.shortens_over - len(prompt)))
        for number in range(answer_tokens):
            await asyncio.sleep(self.token_s)
            if faults.stalls_after is not None and number >= faults.stalls_after:
                await asyncio.sleep(3600)
            if faults.stream_error and number == 2:
                await send({"error": {"message": "the engine core has died", "code": 500}})
                await response.write(b"data: [DONE]\n\n")
                return response
            if faults.preempts_over_streams is not None and len(self._running) > faults.preempts_over_streams:
                self._totals["preemptions"] += 1
            self._running[key] += 1
            self._totals["generation"] += faults.miscounts
            copied = self._copied(key) if copied is None else copied
            if self._babbles(len(prompt)):
                word = "!"
            elif number < len(copied):
                word = f" {copied[number]}"
            else:
                word = f" {WORDS[(sum(prompt[-8:]) * 7 + number * number) % len(WORDS)]}"
            await say(word)
        await say("", "length")
        if not faults.no_usage:
            await send({"choices": [], "usage": {"prompt_tokens": len(prompt), "completion_tokens": answer_tokens}})
        if not faults.no_done:
            await response.write(b"data: [DONE]\n\n")
        return response

    def _copied(self, key: int) -> list[str]:
        """What stood behind the prompt's last words before, if the prompt ends as prompts with a code do."""
        faults, running = self.faults, len(self._running)
        prompt = self._prompts[key]
        if faults.mixes_up_over_streams is not None and running > faults.mixes_up_over_streams:
            prompt = next(other for name, other in self._prompts.items() if name != key)
        lost = faults.loses_over_streams is not None and running > faults.loses_over_streams
        if faults.never_copies or lost or prompt[-1] != self._vocabulary.get('"'):
            return []
        words = list(self._vocabulary)
        quoted = (place for place, word in enumerate(prompt) if words[word].startswith('"') and words[word] != '"')
        found = next(quoted, None)
        return [] if found is None else [words[word].strip('".') for word in prompt[found : found + 3]]

    def _babbles(self, prompt_tokens: int) -> bool:
        faults = self.faults
        return (
            faults.babbles_always
            or (faults.babbles_over_streams is not None and len(self._running) > faults.babbles_over_streams)
            or (faults.babbles_over_length is not None and prompt_tokens > faults.babbles_over_length)
        )

    async def _metrics(self, _request: web.Request) -> web.Response:
        if self.faults.no_metrics:
            raise web.HTTPNotFound
        used = sum(math.ceil(length / self.block_size) for length in self._running.values()) * self.faults.kv_factor
        old = "gpu_" if self.faults.old_names else ""
        usage = f"vllm:{'gpu_cache' if old else 'kv_cache'}_usage_perc"
        series = {
            "vllm:num_requests_running": len(self._running),
            "vllm:num_requests_waiting": self._waiting,
            usage: used / (self.blocks - 1),
            "vllm:num_preemptions_total": self._totals["preemptions"],
            "vllm:prompt_tokens_total": self._totals["prompt"],
            "vllm:generation_tokens_total": self._totals["generation"],
            f"vllm:{old}prefix_cache_queries_total": self._totals["queries"],
            f"vllm:{old}prefix_cache_hits_total": self._totals["hits"],
        }
        lines = [f'{name}{{engine="0",model_name="{MODEL}"}} {value}' for name, value in series.items()]
        lines += [
            f'vllm:cache_config_info{{block_size="{self.block_size}",engine="0",num_gpu_blocks="{self.blocks}"}} 1.0',
            f"process_start_time_seconds {self.started_at}",
        ]
        return web.Response(text="\n".join(lines) + "\n")


@contextmanager
def fault_engine(folder: Path, **faults: Any) -> Iterator[FaultEngine]:
    """An engine with these faults."""
    with FaultEngine(folder, Faults(**faults)) as engine:
        yield engine


def main(arguments: list[str]) -> None:
    """The engine as a program: takes `--uds` and `--max-model-len`, ignores other flags, runs until it is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--uds", type=Path, required=True)
    parser.add_argument("--max-model-len", type=int, default=512)
    known, _ = parser.parse_known_args(arguments)
    print("loading", known.uds, flush=True)  # noqa: T201 - its log
    engine = FaultEngine(known.uds.parent, max_model_len=known.max_model_len)
    engine.socket = known.uds
    with engine:
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
