"""A clamd that can be trusted: only a literal `stream: OK` counts as clean.

Connections are pyclamd's, one for each command; sending and reading the reply are done here, since pyclamd answers
"clean" for an empty reply too. A limit that clamd ran into is `NotScanned`, whatever word clamd uses for it; a
connection that breaks is an error.

Every wait has an end: a connection is made within 10 s, a chunk is taken within 2 minutes, and a verdict that is not
complete in the time a scan is trusted for is `NotScanned`. `cancel` ends every scan under way at once.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from modelctl.errors import CannotDecideError, InputError
from modelctl.services import clamd_conf

CHUNK_BYTES = 1 << 20
MAX_REPLY_BYTES = 64 << 10
CONNECT_TIMEOUT_S = 10.0
SEND_TIMEOUT_S = 120.0
TRUSTED_SCAN_S = 110.0
"""clamd's MaxScanTime is 120 s unless set otherwise, and a scan that it cuts short may be called OK: a slower OK is
not believed, nor waited for."""

_REMEDY = "start one with `modelctl services up` or name one with --clamd; `modelctl doctor` says what is missing"
_DATE = "%a %b %d %H:%M:%S %Y"


class Readable(Protocol):
    """Where bytes come from: a file, a member of an archive, a window."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""


@dataclass(frozen=True, kw_only=True)
class ClamdVersion:
    """What `VERSION` says. `database` and `database_date` (UTC) are None when no daily database is loaded."""

    engine: str
    database: int | None
    database_date: datetime | None


@dataclass(frozen=True, kw_only=True)
class Clean:
    """clamd said literally OK."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """clamd named a signature."""

    signature: str


@dataclass(frozen=True, kw_only=True)
class NotScanned:
    """clamd did not look at all of it."""

    reason: str


ScanReply = Clean | Found | NotScanned


class Clamd:
    """One clamd, at a unix socket's path or `host:port`. May be used by several threads: every command has its own
    connection."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._cancelled = False
        self._host: tuple[str, int] | None = None
        if "/" not in address:
            host, _, port = address.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65536:
                raise InputError(
                    f"clamd address {address!r}: wanted a socket's path or host:port",
                    remedy="for example --clamd /run/clamav/clamd.ctl or --clamd 127.0.0.1:3310",
                )
            self._host = (host.strip("[]"), int(port))

    def version(self) -> ClamdVersion:
        """The engine's version and the daily database's number and date. Raises `CannotDecideError`."""
        answer = self._ask("VERSION")
        match = re.fullmatch(r"(ClamAV [^/\s]+)(?:/(\d+)(?:/(.+))?)?", answer)
        if match is None:
            raise CannotDecideError(f"what listens at {self.address} is no clamd: it answered {answer[:80]!r}")
        date = None
        if match[3]:
            try:
                date = datetime.strptime(match[3].strip(), _DATE).replace(tzinfo=UTC)
            except ValueError as error:
                raise CannotDecideError(f"clamd at {self.address}: unreadable database date {match[3]!r}") from error
        return ClamdVersion(engine=match[1], database=int(match[2]) if match[2] else None, database_date=date)

    def scan(
        self,
        stream: Readable,
        *,
        advance: Callable[[float], None] = lambda _: None,
        trusted_scan_s: float = TRUSTED_SCAN_S,
    ) -> ScanReply:
        """Send a stream by INSTREAM and read the verdict; `advance` is told the bytes as they go.

        A verdict that is not there `trusted_scan_s` seconds after the end of the stream is `NotScanned`. Raises
        `CannotDecideError` when the connection breaks, the reply is none of clamd's, or `cancel` was called, and
        `OSError` when the stream can't be read.
        """
        complete = False
        with self._connection() as connection:
            try:
                self._send(connection, b"zINSTREAM\0")
                while chunk := stream.read(CHUNK_BYTES):
                    self._send(connection, struct.pack("!L", len(chunk)) + chunk)
                    advance(len(chunk))
                self._send(connection, struct.pack("!L", 0))
                complete = True
            except (BrokenPipeError, ConnectionResetError):
                pass  # clamd hangs up in the middle when its limit is reached, and its last words may still be there
            try:
                answer = self._receive(connection, timeout_s=trusted_scan_s)
            except TimeoutError:
                return NotScanned(
                    reason=f"clamd gave no verdict within {trusted_scan_s:g} s of the end of the stream, and a later "
                    "one is not believed (malware.trusted_scan_s, MaxScanTime)"
                )
        reply = _verdict(answer, self.address)
        if isinstance(reply, Clean) and not complete:
            return NotScanned(reason="clamd said OK and hung up before the end of the stream")
        return reply

    def cancel(self) -> None:
        """End every scan under way, in whatever thread, and refuse further ones with `CannotDecideError`."""
        with self._lock:
            self._cancelled = True
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _ask(self, command: str) -> str:
        with self._connection() as connection:
            self._send(connection, b"z" + command.encode() + b"\0")
            try:
                return self._receive(connection, timeout_s=CONNECT_TIMEOUT_S).strip()
            except TimeoutError as error:
                raise self._broken(error) from error

    @contextmanager
    def _connection(self) -> Iterator[socket.socket]:
        connection = self._connect()
        with self._lock:
            cancelled = self._cancelled
            self._open.add(connection)
        try:
            if cancelled:
                raise CannotDecideError("the scan was cancelled")
            yield connection
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _send(self, connection: socket.socket, content: bytes) -> None:
        """All of it. Raises `BrokenPipeError` and `ConnectionResetError` as they are: the peer hung up."""
        try:
            connection.sendall(content)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except OSError as error:
            raise self._broken(error) from error

    def _connect(self) -> socket.socket:
        import pyclamd

        # pyclamd's errors are OSErrors, and so are a path that is too long and a name that does not resolve
        try:
            if self._host is None:
                client = pyclamd.ClamdUnixSocket(self.address, timeout=CONNECT_TIMEOUT_S)
            else:
                client = pyclamd.ClamdNetworkSocket(*self._host, timeout=CONNECT_TIMEOUT_S)
            client._init_socket()
        except OSError as error:
            why = clamd_conf.why_silent(self.address)
            raise CannotDecideError(
                f"clamd does not answer at {self.address}: {why or error}",
                remedy=clamd_conf.FRESHCLAM if why else _REMEDY,
            ) from error
        connection: socket.socket = client.clamd_socket
        connection.settimeout(SEND_TIMEOUT_S)
        return connection

    def _receive(self, connection: socket.socket, *, timeout_s: float) -> str:
        """One whole answer, up to its zero byte. Raises `TimeoutError` when it is not complete in time."""
        deadline = time.monotonic() + timeout_s
        answer = bytearray()
        while not answer.endswith(b"\0"):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("no answer")
            connection.settimeout(left_s)
            try:
                part = connection.recv(4096)
            except TimeoutError:
                raise
            except OSError as error:
                raise self._broken(error) from error
            if not part:
                words = f" after {bytes(answer[:80])!r}" if answer else " without an answer"
                raise CannotDecideError(
                    f"clamd at {self.address} closed the connection{words}",
                    remedy="see its log: it may have died or been restarted",
                )
            answer += part
            if len(answer) > MAX_REPLY_BYTES:
                raise CannotDecideError(f"what listens at {self.address} is no clamd: its answer has no end")
        return answer[:-1].decode("utf-8", "backslashreplace")

    def _broken(self, error: OSError) -> CannotDecideError:
        words = "it takes nothing more" if isinstance(error, TimeoutError) else error.strerror or str(error)
        return CannotDecideError(
            f"the connection to clamd at {self.address} broke: {words or type(error).__name__}",
            remedy="see clamd's log: it may have died, hang, or have no room in its TemporaryDirectory",
        )


def _verdict(answer: str, address: str) -> ScanReply:
    if answer == "stream: OK":
        return Clean()
    found = re.fullmatch(r"stream: (.+) FOUND", answer)
    if found is not None:
        signature = found[1]
        if signature.startswith("Heuristics.Limits.Exceeded"):
            return NotScanned(reason=f"a limit of clamd was exceeded ({signature})")
        if signature.startswith("Heuristics.Encrypted"):
            return NotScanned(reason=f"encrypted ({signature})")
        return Found(signature=signature)
    if answer.endswith("ERROR"):
        return NotScanned(reason=f"clamd answered: {answer}")
    raise CannotDecideError(f"clamd at {address} gave an answer that is none of its own: {answer[:120]!r}")
