"""One HTTP/1.1 connection and the framing of what comes by it (RFC 9112): chunked, by length or by its end.

Nothing is copied or queued on the way: a read is cut and given to the reader from within the callback that brought it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

_MAX_HEAD_BYTES = 64 << 10
_MAX_CHUNK_BYTES = 64 << 20
_MAX_CHUNK_HEAD_BYTES = 1024
_KEPT_ERROR_BYTES = 4096


class Sink(Protocol):
    """Who takes an answer."""

    status: int | None

    def refuse(self, status: int, body: str) -> None:
        """Take an answer that is no 200, with the beginning of its body."""

    def feed(self, chunk: bytes, at_s: float) -> None:
        """Take a part of the body as it was read at `at_s`."""


class Connection(asyncio.BufferedProtocol):
    """One connection, one exchange at a time. All read into one buffer, each read being taken at once: a buffer of its
    own for every read of some hundred bytes costs as much as the read."""

    def __init__(self, origin_s: float, buffer: bytearray) -> None:
        self._origin_s = origin_s
        self._buffer = buffer
        self._transport: asyncio.Transport | None = None
        self._done: asyncio.Future[None] | None = None
        self._sink: Sink | None = None
        self._pending = b""
        self._closed = False
        self._in_head = True
        self._keep = True
        self._chunked = False
        self._left: int | None = None
        """Bytes of a body whose length was given."""
        self._status = 0
        self._error = b""
        self.heard = False
        """Whether anything came in this exchange."""

    @property
    def reusable(self) -> bool:
        """Whether another exchange can be had."""
        return not self._closed and self._done is None

    def abort(self) -> None:
        """Drop the connection."""
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, request: bytes, sink: Sink) -> None:
        """Send, and wait for the end of the answer. Raises `ConnectionError`."""
        if self._transport is None or self._closed:
            raise ConnectionResetError("the connection was closed")
        self._done = asyncio.get_running_loop().create_future()
        self._sink = sink
        self.heard = False
        self._in_head = True
        self._keep = True
        self._chunked = False
        self._left = None
        self._error = b""
        self._pending = b""
        self._transport.write(request)
        try:
            await self._done
        except asyncio.CancelledError:
            self._closed = True
            raise
        finally:
            self._done = self._sink = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        if not isinstance(transport, asyncio.Transport):
            raise AssertionError("a connection is a transport that reads and writes")
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of an answer that has no other, else a cut."""
        self._closed = True
        if self._done is None or self._done.done():
            return
        if not self._in_head and not self._chunked and self._left is None:
            self._finish()
        else:
            words = str(exc) if exc else "the engine closed the connection before the answer's end"
            self._done.set_exception(ConnectionResetError(words))

    def get_buffer(self, sizehint: int) -> bytearray:
        """Where the next read goes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take what the kernel brought."""
        at_s = time.monotonic() - self._origin_s
        data = bytes(memoryview(self._buffer)[:nbytes])
        if self._done is None or self._done.done():
            self.abort()  # nobody asked
            return
        self.heard = True
        try:
            if self._in_head:
                data = self._head(self._pending + data)
                if self._in_head:
                    return
            self._body(data, at_s)
        except ValueError as error:
            self._closed = True
            if not self._done.done():
                self._done.set_exception(ConnectionAbortedError(f"not HTTP: {error}"))

    def _head(self, data: bytes) -> bytes:
        """Read status and header fields when they are whole; what is left is of the body."""
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > _MAX_HEAD_BYTES:
                    raise ValueError(f"header fields of more than {_MAX_HEAD_BYTES} bytes")
                self._pending = data
                return b""
            first, *lines = data[:end].decode("latin-1").split("\r\n")
            data = data[end + 4 :]
            version, _, rest = first.partition(" ")
            if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
                raise ValueError(f"{first[:80]!a}")
            status = int(rest[:3])
            if status >= 200:
                break
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._keep = version == "HTTP/1.1" and fields.get("connection", "").lower() != "close"
        self._chunked = "chunked" in fields.get("transfer-encoding", "").lower()
        length = fields.get("content-length")
        if not self._chunked and length is not None:
            if not length.isdecimal():
                raise ValueError(f"Content-Length: {length[:80]!a}")
            self._left = int(length)
        self._in_head = False
        self._pending = b""
        self._status = status
        if self._sink is not None:
            self._sink.status = status
        if self._left == 0:
            self._finish()
        return data

    def _body(self, data: bytes, at_s: float) -> None:
        if self._chunked:
            self._chunks(data, at_s)
            return
        if data:
            self._give(data, at_s)
        if self._left is not None:
            self._left -= len(data)
            if self._left <= 0:
                self._finish()

    def _chunks(self, data: bytes, at_s: float) -> None:
        if self._pending:
            data = self._pending + data
        position = 0
        whole: list[bytes] = []
        ended = False
        while (line := data.find(b"\r\n", position)) >= 0:
            size = int(data[position:line].partition(b";")[0], 16)
            if not 0 <= size <= _MAX_CHUNK_BYTES:
                raise ValueError(f"a chunk of {size} bytes")
            end = line + 2 + size
            if size == 0:
                # Trailer fields, where there are any, end with an empty line.
                ended = data.startswith(b"\r\n", end) or data.find(b"\r\n\r\n", line) >= 0
                break
            if len(data) < end + 2:
                break
            whole.append(data[line + 2 : end])
            position = end + 2
        self._pending = data[position:]
        if line < 0 and len(self._pending) > _MAX_CHUNK_HEAD_BYTES:
            raise ValueError("a chunk without a size")
        if whole:
            self._give(whole[0] if len(whole) == 1 else b"".join(whole), at_s)
        if ended:
            self._finish()

    def _give(self, data: bytes, at_s: float) -> None:
        if self._sink is None:
            return
        if self._status == 200:
            self._sink.feed(data, at_s)
            return
        self._error += data[: _KEPT_ERROR_BYTES - len(self._error)]
        if len(self._error) >= _KEPT_ERROR_BYTES:
            self._keep = False
            self._finish()

    def _finish(self) -> None:
        if self._done is None or self._done.done():
            return
        if self._status != 200 and self._sink is not None:
            self._sink.refuse(self._status, self._error.decode("utf-8", "replace"))
        if not self._keep:
            self._closed = True
        self._done.set_result(None)
