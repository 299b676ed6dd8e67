"""HTTP/1.1 for one thing: POST a body and have the answer's bytes handed to a reader as the kernel brings them.

A general client wakes a task for every read, through several queues; with a thousand streams that costs more than all
else that a load generator does. Here a reader is called from the read itself, with the time of the read. Connections
are kept and used again, and there is no limit to their number.
"""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

from modelctl.serving.connection import Connection, Sink
from modelctl.serving.endpoint import Endpoint

_CONNECT_TIMEOUT_S = 10.0
_READ_BYTES = 64 << 10


class NoConnectionError(ConnectionError):
    """No connection could be made."""


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
        self._free: list[Connection] = []
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

    def _kept(self) -> Connection | None:
        while self._free:
            connection = self._free.pop()
            if connection.reusable:
                return connection
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()

        def make() -> Connection:
            return Connection(self._origin_s, self._buffer)

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
