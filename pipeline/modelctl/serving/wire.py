"""HTTP/1.1 for one thing: POST a body and have the answer's bytes handed to a reader as the kernel brings them.

A general client wakes a task for every read, through several queues; with a thousand streams that costs more than all
else that a load generator does. Here a reader is called from the read itself, with the time of the read. Connections
are kept and used again, and there is no limit to their number. Framing is RFC 9112: chunked, by length or by the end
of the connection.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Protocol
from urllib.parse import urlsplit

from modelctl.serving.endpoint import Endpoint

_CONNECT_TIMEOUT_S = 10.0
_MAX_HEAD_BYTES = 64 << 10
_MAX_CHUNK_BYTES = 64 << 20
_MAX_CHUNK_HEAD_BYTES = 1024
_KEPT_ERROR_BYTES = 4096
_READ_BYTES = 64 << 10


class NoConnectionError(ConnectionError):
    """No connection could be made."""


class Sink(Protocol):
    """Who takes an answer."""

    status: int | None

    def refuse(self, status: int, body: str) -> None:
        """Take an answer that is no 200, with the beginning of its body."""

    def feed(self, chunk: bytes, at_s: float) -> None:
        """Take a part of the body as it was read at `at_s`."""


class Wire:
    """Connections to one engine."""

    def __init__(self, endpoint: Endpoint, *, headers: dict[str, str], origin_s: float) -> None:
        """`origin_s` is the origin of the readers' clock."""
        parts = urlsplit(endpoint.base_url)
        self._socket = endpoint.socket
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" and not endpoint.socket else None
        self._address: str | None = None
        self._origin_s = origin_s
        self._free: list[_Connection] = []
        self._buffer = bytearray(_READ_BYTES)
        fields = {
            "Host": parts.netloc.rpartition("@")[2],
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            **headers,
        }
        self._fields = "".join(f"{name}: {value}\r\n" for name, value in fields.items())

    def close(self) -> None:
        """Close the connections that are free; those in use end with their requests."""
        for connection in self._free:
            connection.abort()
        self._free.clear()

    async def post(self, path: str, body: bytes, sink: Sink) -> None:
        """Send one request and wait until `sink` has its whole answer.

        Raises `NoConnectionError`, or `ConnectionError` when the connection ended before the answer did or what came
        is no HTTP. A kept connection that the other side closed meanwhile is replaced once.
        """
        head = f"POST {path} HTTP/1.1\r\n{self._fields}Content-Length: {len(body)}\r\n\r\n".encode("latin-1")
        while True:
            kept = self._kept()
            connection = kept or await self._connect()
            try:
                await connection.exchange(head + body, sink)
            except ConnectionError:
                if kept is not None and not connection.heard:
                    continue
                raise
            finally:
                if connection.reusable:
                    self._free.append(connection)
                else:
                    connection.abort()
            return

    def _kept(self) -> _Connection | None:
        while self._free:
            connection = self._free.pop()
            if connection.reusable:
                return connection
        return None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()

        def make() -> _Connection:
            return _Connection(self._origin_s, self._buffer)

        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                if self._socket is not None:
                    return (await loop.create_unix_connection(make, str(self._socket)))[1]
                transport, connection = await loop.create_connection(
                    make, self._address or self._host, self._port, ssl=self._tls,
                    server_hostname=self._host if self._tls else None,
                )  # fmt: skip
        except TimeoutError as error:
            raise NoConnectionError(f"no connection after {_CONNECT_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise NoConnectionError(str(error)) from error
        self._address = transport.get_extra_info("peername")[0]  # the name is resolved once
        return connection


class _Connection(asyncio.BufferedProtocol):
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
