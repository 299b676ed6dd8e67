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

from modelctl.errors import CannotDecideError
from modelctl.serving.answers import Answer
from modelctl.serving.endpoint import Endpoint
from modelctl.serving.events import StreamReader

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

_READ_BUFFER_BYTES = 1 << 20
_MAX_PLAIN_BYTES = 64 << 20
_CONNECT_TIMEOUT_S = 10.0


class EngineClient:
    """A session with one engine, for the time of an `async with` block."""

    def __init__(self, endpoint: Endpoint, *, silence_limit_s: float = 60.0, time_limit_s: float = 600.0) -> None:
        """`silence_limit_s` ends a stream that says nothing for so long, `time_limit_s` any request."""
        self.endpoint = endpoint
        self.silence_limit_s = silence_limit_s
        self.time_limit_s = time_limit_s
        self._origin = time.monotonic()
        self._session: ClientSession | None = None

    async def __aenter__(self) -> EngineClient:
        import aiohttp

        socket = self.endpoint.socket
        connector = aiohttp.UnixConnector(path=str(socket), limit=0) if socket else aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(
            base_url=self.endpoint.base_url,
            connector=connector,
            read_bufsize=_READ_BUFFER_BYTES,
            timeout=aiohttp.ClientTimeout(
                total=self.time_limit_s, sock_connect=_CONNECT_TIMEOUT_S, sock_read=self.silence_limit_s
            ),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.close()

    @property
    def _opened(self) -> ClientSession:
        if self._session is None:
            raise AssertionError("used outside of its 'async with' block")
        return self._session

    def now(self) -> float:
        """Seconds since the client was made: the clock of every row."""
        return time.monotonic() - self._origin

    async def get_text(self, path: str) -> str:
        """The body of a GET. Raises `CannotDecideError` when it does not answer 200."""
        status, body = await self._plain("GET", path, None)
        if status != 200:
            raise CannotDecideError(f"{self.endpoint.base_url}{path}: HTTP {status}")
        return body

    async def get_json(self, path: str) -> object:
        """The parsed body of a GET. Raises `CannotDecideError`."""
        return _parse(await self.get_text(path), origin=f"{self.endpoint.base_url}{path}")

    async def post_json(self, path: str, body: Mapping[str, object]) -> tuple[int, object]:
        """Status and parsed body of a POST. Raises `CannotDecideError` when nothing or no JSON comes back."""
        status, text = await self._plain("POST", path, body)
        return status, _parse(text, origin=f"{self.endpoint.base_url}{path} (HTTP {status})")

    async def _plain(self, method: str, path: str, body: Mapping[str, object] | None) -> tuple[int, str]:
        import aiohttp

        try:
            async with self._opened.request(method, path, json=body) as response:
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
    ) -> Answer:
        """Send one greedy completion and read its stream to the end; what went wrong is in the row.

        `exact_answer` asks for `answer_tokens` tokens whatever the model says (vLLM's `ignore_eos`), so that loads
        are comparable.
        """
        import aiohttp

        body: dict[str, object] = {
            "model": self.endpoint.model,
            "prompt": prompt if isinstance(prompt, str) else list(prompt),
            "max_tokens": answer_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if exact_answer:
            body["ignore_eos"] = True
        payload = json.dumps(body).encode()
        reader = StreamReader(stream=stream, serial=serial, intended_s=intended_s, sent_s=self.now())
        try:
            async with self._opened.post(
                "/v1/completions", data=payload, headers={"Content-Type": "application/json"}
            ) as response:
                await self._read(response, reader)
        except aiohttp.ConnectionTimeoutError as error:
            reader.fail("connect", str(error))
        except aiohttp.ServerTimeoutError:
            reader.fail("stalled", f"no byte for {self.silence_limit_s:g} s")
        except TimeoutError:
            reader.fail("timeout", f"not finished after {self.time_limit_s:g} s")
        except aiohttp.ClientConnectorError as error:
            reader.fail("connect", str(error))
        except (aiohttp.ClientError, OSError) as error:
            reader.fail("cut", str(error) or type(error).__name__)
        return reader.answer(done_s=self.now())

    async def _read(self, response: ClientResponse, reader: StreamReader) -> None:
        if response.status != 200:
            text = (await response.content.read(4096)).decode("utf-8", "replace")
            reader.refuse(response.status, text)
            return
        reader.status = response.status
        async for chunk in response.content.iter_any():
            reader.feed(chunk, at_s=self.now())


def _parse(text: str, *, origin: str) -> object:
    try:
        parsed: object = json.loads(text)
    except ValueError as error:
        raise CannotDecideError(
            f"{origin}: not JSON: {text[:80]!a}", remedy="is this an OpenAI-compatible server?"
        ) from error
    return parsed
