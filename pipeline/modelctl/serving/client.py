"""An asynchronous client of an OpenAI-compatible engine that measures without helping it or standing in its way.

No connection limit, every read is timestamped before it is parsed, and a request counts as answered only when
everything that makes an answer complete was there. A failed request is a row, not an exception; only a plain question
(`get_json`) raises.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from modelctl.errors import CannotDecideError, InputError
from modelctl.serving.answers import Answer
from modelctl.serving.bodies import PATHS, Api, request_body
from modelctl.serving.embeddings import EmbeddingReader
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.events import StreamReader
from modelctl.serving.patience import Patience
from modelctl.serving.reader import masked
from modelctl.serving.wire import NoConnectionError, Wire

if TYPE_CHECKING:
    from aiohttp import ClientSession

_MAX_PLAIN_BYTES = 64 << 20
_CONNECT_TIMEOUT_S = 10.0


class EngineClient:
    """A session with one engine, for the time of an `async with` block."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        silence_limit_s: float = 60.0,
        time_limit_s: float = 600.0,
        origin_s: float | None = None,
    ) -> None:
        """`silence_limit_s` ends a stream that says nothing for so long, `time_limit_s` any request. `origin_s` is the
        origin of another client's clock, in this process or another of this machine: one clock for both."""
        self.endpoint = endpoint
        self.silence_limit_s = silence_limit_s
        self.time_limit_s = time_limit_s
        self.origin_s = time.monotonic() if origin_s is None else origin_s
        self._session: ClientSession | None = None
        self._wire: Wire | None = None

    async def __aenter__(self) -> EngineClient:
        import aiohttp

        socket, headers = self.endpoint.socket, _headers(self.endpoint.api_key)
        connector = aiohttp.UnixConnector(path=str(socket), limit=0) if socket else aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(
            base_url=self.endpoint.base_url,
            connector=connector,
            headers=headers,
            timeout=aiohttp.ClientTimeout(
                total=self.time_limit_s, sock_connect=_CONNECT_TIMEOUT_S, sock_read=self.silence_limit_s
            ),
        )
        self._wire = Wire(self.endpoint, headers=headers, origin_s=self.origin_s)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.close()
        if self._wire is not None:
            self._wire.close()

    @property
    def _opened(self) -> ClientSession:
        if self._session is None:
            raise AssertionError("used outside of its 'async with' block")
        return self._session

    def now(self) -> float:
        """Seconds since the client was made: the clock of every row."""
        return time.monotonic() - self.origin_s

    async def get_text(self, path: str) -> str:
        """The body of a GET. Raises `CannotDecideError` when it does not answer 200."""
        status, body = await self._plain("GET", path, None)
        if status != 200:
            raise CannotDecideError(f"{self.endpoint.base_url}{path}: HTTP {status}")
        return body

    async def get_json(self, path: str) -> object:
        """The parsed body of a GET. Raises `CannotDecideError`."""
        return self._parse(await self.get_text(path), origin=f"{self.endpoint.base_url}{path}")

    async def post_json(self, path: str, body: Mapping[str, object]) -> tuple[int, object]:
        """Status and parsed body of a POST. Raises `CannotDecideError` when nothing or no JSON comes back."""
        status, text = await self._plain("POST", path, body)
        return status, self._parse(text, origin=f"{self.endpoint.base_url}{path} (HTTP {status})")

    async def _plain(self, method: str, path: str, body: Mapping[str, object] | None) -> tuple[int, str]:
        import aiohttp

        try:
            async with self._opened.request(method, path, json=body, allow_redirects=False) as response:
                content = await response.content.read(_MAX_PLAIN_BYTES)
                while len(content) < _MAX_PLAIN_BYTES and (more := await response.content.read(_MAX_PLAIN_BYTES)):
                    content += more
                return response.status, content.decode("utf-8", "replace")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            words = str(error) or type(error).__name__
            raise CannotDecideError(
                f"no answer from {self.endpoint.base_url}{path}: {words}",
                remedy="look whether the engine still runs and that the URL is right",
            ) from error

    async def complete(
        self,
        prompt: str | Sequence[int],
        *,
        answer_tokens: int,
        exact_answer: bool,
        stream: int = 0,
        serial: int = 0,
        intended_s: float | None = None,
        api: Api = "completions",
        image: bool = False,
    ) -> Answer:
        """Send one greedy request and read what comes to its end; what went wrong is in the row.

        `exact_answer` asks for `answer_tokens` tokens whatever the model says (vLLM's `ignore_eos`), so that loads
        are comparable. `image` puts a picture of ours, another for each serial, before a chat's text.
        """
        wire = self._wire
        if wire is None:
            raise AssertionError("used outside of its 'async with' block")
        body = request_body(
            api, prompt, model=self.endpoint.model, answer_tokens=answer_tokens, exact_answer=exact_answer,
            image_serial=serial if image else None,
        )  # fmt: skip
        payload = json.dumps(body).encode()
        kind = EmbeddingReader if api == "embeddings" else StreamReader
        reader = kind(
            stream=stream, serial=serial, intended_s=intended_s, sent_s=self.now(), hidden=self.endpoint.api_key
        )
        try:
            with Patience(
                reader, now=self.now, silence_limit_s=self.silence_limit_s, until_s=self.now() + self.time_limit_s
            ):
                await wire.post(PATHS[api], payload, reader)
        except NoConnectionError as error:
            reader.fail("connect", str(error))
        except ConnectionError as error:
            reader.fail("cut", str(error))
        return reader.answer(done_s=self.now())

    def _parse(self, text: str, *, origin: str) -> object:
        try:
            parsed: object = json.loads(text)
        except ValueError as error:
            raise CannotDecideError(
                f"{origin}: not JSON: {masked(text, self.endpoint.api_key)[:80]!a}",
                remedy="is this an OpenAI-compatible server?",
            ) from error
        return parsed


def _headers(api_key: str | None) -> dict[str, str]:
    if api_key is None:
        return {}
    if not api_key.isascii() or not api_key.isprintable():
        raise InputError("the engine's API key holds a line break or another character that no header can")
    return {"Authorization": f"Bearer {api_key}"}
