"""A server that streams answers like an engine, as cheaply as Python can, with settable faults.

It answers what load generators ask before they begin (models, health, metrics) and streams completions and chats whose
events are encoded beforehand, each stream at its own steady pace. `GET /seen` says what came in.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

MODEL = "fault"
FAULTS = ("error", "no-usage", "no-done", "no-finish", "late-word", "pairs", "cached", "stall", "restart", "babble")
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
_LATE_WORD_S = 0.3
_PREFIX = 48
"""Characters, or token ids, of a prompt by which two are told apart."""


def encoded(event: dict[str, Any] | str) -> bytes:
    """One server-sent event as one HTTP chunk."""
    data = b"data: " + (event if isinstance(event, str) else json.dumps(event)).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


@dataclass(kw_only=True)
class Engine:
    """What all connections share."""

    token_s: float
    seats: int
    faults: frozenset[str]
    connections: int = 0
    most_connections: int = 0
    under_way: int = 0
    most_under_way: int = 0
    requests: int = 0
    prompts: set[str] = field(default_factory=set)
    prefixes: set[str] = field(default_factory=set)
    generated: int = 0
    prompted: int = 0
    waiting: deque[_Stream] = field(default_factory=deque)
    started_at: float = field(default_factory=time.time)
    events: dict[tuple[bool, str], bytes] = field(default_factory=dict)

    def event(self, chat: bool, kind: str) -> bytes:
        """An event of an answer, encoded once."""
        if (chat, kind) not in self.events:
            self.events[chat, kind] = encoded(self._event(chat, kind))
        return self.events[chat, kind]

    def _event(self, chat: bool, kind: str) -> dict[str, Any]:
        words = "!" if "babble" in self.faults else " word word" if "pairs" in self.faults else " word"
        text = words if kind == "word" else ""
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": "length" if kind == "end" else None}
        if chat:
            choice["delta"] = {"role": "assistant", "content": ""} if kind == "role" else {"content": text}
        else:
            choice |= {"text": text, "stop_reason": None, "token_ids": None, "prompt_token_ids": None}
        return {
            "id": "cmpl-8f2d1c7ab35e4a0e9a0c1f6f4d2b7e11", "created": 1760000000, "model": MODEL, "choices": [choice],
            "object": "chat.completion.chunk" if chat else "text_completion",
        }  # fmt: skip

    def finished(self) -> None:
        """A stream ended: the next one has its seat."""
        self.under_way -= 1
        if self.waiting:
            self.waiting.popleft().begin()

    def seen(self) -> dict[str, int]:
        """What came in so far."""
        return {
            "requests": self.requests, "most_connections": self.most_connections, "most_under_way": self.most_under_way,
            "prompts": len(self.prompts), "prefixes": len(self.prefixes), "generated": self.generated,
        }  # fmt: skip

    def metrics(self) -> str:
        """Prometheus text with vLLM's names."""
        restarted = 100 if "restart" in self.faults and self.requests > 10 else 0
        hits = 0.9 * self.prompted if "cached" in self.faults else 0
        values = {
            "vllm:num_requests_running": self.under_way - len(self.waiting),
            "vllm:num_requests_waiting": len(self.waiting), "vllm:kv_cache_usage_perc": 0.1,
            "vllm:num_preemptions_total": 0, "vllm:generation_tokens_total": self.generated,
            "vllm:prompt_tokens_total": self.prompted, "vllm:prefix_cache_queries_total": self.prompted,
            "vllm:prefix_cache_hits_total": hits,
        }  # fmt: skip
        lines = [f'{name}{{engine="0",model_name="{MODEL}"}} {value}' for name, value in values.items()]
        return "\n".join([*lines, f"process_start_time_seconds {self.started_at + restarted}", ""])


class _Stream:
    """One answer under way."""

    def __init__(self, engine: Engine, connection: Connection, body: dict[str, Any], *, chat: bool) -> None:
        self._engine = engine
        self._connection = connection
        self._chat = chat
        prompt = body["messages"] if chat else body["prompt"]
        if isinstance(prompt, list) and prompt and isinstance(prompt[0], list):
            prompt = prompt[0]
        text = json.dumps(prompt)
        engine.prompts.add(hashlib.sha256(text.encode()).hexdigest())
        engine.prefixes.add(json.dumps(prompt[:_PREFIX]) if not chat else text[: 2 * _PREFIX])
        self._prompt_tokens = len(prompt) if isinstance(prompt, list) and not chat else len(text.split())
        self._tokens = int(body.get("max_tokens") or body.get("max_completion_tokens") or 16)
        self._usage = bool((body.get("stream_options") or {}).get("include_usage")) and "no-usage" not in engine.faults
        self._step = 2 if "pairs" in engine.faults else 1
        self._sent = 0
        self._loop = asyncio.get_running_loop()
        engine.prompted += self._prompt_tokens

    def begin(self) -> None:
        write = self._connection.write
        write(_HEAD)
        if self._chat:
            write(self._engine.event(True, "role"))
        phase_s = self._engine.token_s * random.random()  # noqa: S311 - no secret
        first_s = _LATE_WORD_S if "late-word" in self._engine.faults else phase_s
        self._due = self._loop.time() + first_s
        self._loop.call_at(self._due, self._word)

    def _word(self) -> None:
        engine = self._engine
        if self._connection.closed:
            engine.finished()
            return
        if self._sent >= 3:
            if "stall" in engine.faults:
                return
            if "error" in engine.faults:
                self._connection.write(encoded({"error": {"message": "the engine core has died", "code": 500}}))
                self._close()
                return
        self._connection.write(engine.event(self._chat, "word"))
        self._sent += self._step
        engine.generated += self._step
        if self._sent >= self._tokens:
            self._finish()
            return
        self._due += engine.token_s
        self._loop.call_at(self._due, self._word)

    def _finish(self) -> None:
        if "no-finish" not in self._engine.faults:
            self._connection.write(self._engine.event(self._chat, "end"))
        if self._usage:
            cached = int(0.9 * self._prompt_tokens) if "cached" in self._engine.faults else 0
            usage = {
                "prompt_tokens": self._prompt_tokens, "completion_tokens": self._sent,
                "total_tokens": self._prompt_tokens + self._sent, "prompt_tokens_details": {"cached_tokens": cached},
            }  # fmt: skip
            self._connection.write(encoded({"id": "cmpl-1", "model": MODEL, "choices": [], "usage": usage}))
        self._close()

    def _close(self) -> None:
        if "no-done" not in self._engine.faults:
            self._connection.write(encoded("[DONE]"))
        self._connection.write(b"0\r\n\r\n")
        self._engine.finished()


class Connection(asyncio.Protocol):
    """One client connection: requests one after the other."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pending = b""
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it."""
        self.write = transport.write  # type: ignore[attr-defined] # a TCP transport
        self._engine.connections += 1
        self._engine.most_connections = max(self._engine.most_connections, self._engine.connections)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it."""
        self.closed = True
        self._engine.connections -= 1

    def data_received(self, data: bytes) -> None:
        """Take whole requests out of what came."""
        self._pending += data
        while (head := self._pending.find(b"\r\n\r\n")) >= 0:
            first, *headers = self._pending[:head].decode("latin-1").split("\r\n")
            length = next((int(line[15:]) for line in headers if line.lower().startswith("content-length:")), 0)
            if len(self._pending) < head + 4 + length:
                return
            body = self._pending[head + 4 : head + 4 + length]
            self._pending = self._pending[head + 4 + length :]
            self._answer(first.split(" ")[1].split("?")[0], body)

    def _answer(self, path: str, body: bytes) -> None:
        engine = self._engine
        if path in ("/v1/completions", "/v1/chat/completions"):
            request = json.loads(body)
            engine.requests += 1
            engine.under_way += 1
            engine.most_under_way = max(engine.most_under_way, engine.under_way)
            stream = _Stream(engine, self, request, chat=path.startswith("/v1/chat"))
            if engine.under_way > engine.seats:
                engine.waiting.append(stream)
            else:
                stream.begin()
        elif path == "/v1/models":
            self._plain({"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 8192}]})
        elif path == "/version":
            self._plain({"version": "0.0-fault"})
        elif path == "/health":
            self._plain({})
        elif path == "/seen":
            self._plain(engine.seen())
        elif path == "/metrics":
            self._reply("200 OK", engine.metrics().encode(), "text/plain")
        else:
            self._reply("404 Not Found", b"{}", "application/json")

    def _plain(self, body: dict[str, Any]) -> None:
        self._reply("200 OK", json.dumps(body).encode(), "application/json")

    def _reply(self, status: str, body: bytes, kind: str) -> None:
        self.write(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


async def serve(engine: Engine, port: int) -> None:
    """Listen on loopback and print the port, until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(engine), "127.0.0.1", port, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token-s", type=float, default=0.05, help="seconds between two tokens of a stream")
    parser.add_argument("--seats", type=int, default=1 << 20, help="streams at once; others wait")
    parser.add_argument("--fault", action="append", default=[], choices=FAULTS)
    options = parser.parse_args()
    engine = Engine(token_s=options.token_s, seats=options.seats, faults=frozenset(options.fault))
    asyncio.run(serve(engine, options.port))


if __name__ == "__main__":
    main()
