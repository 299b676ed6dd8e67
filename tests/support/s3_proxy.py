"""A proxy before a real S3 server that breaks what a test names: an error for a status, a cut, or a changed byte.

Requests pass with their own headers, so that signatures hold.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from tests.support.http_server import QuietHandler, served

ANSWERS = {
    "slow-down": (503, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"),
    "disk-full": (507, b"<Error><Code>XMinioStorageFull</Code><Message>No space left on a drive.</Message></Error>"),
}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens to one request instead of the plain answer."""

    kind: Literal["slow-down", "disk-full", "cut", "flip"]
    after: int = 0
    """Bytes of the body that pass before a cut, or before the byte that is flipped."""


@dataclass
class Proxy:
    """The faults by number, path and range of the object request (GET of a key), and what was asked."""

    fault: Callable[[int, str, str], Fault | None]
    write_fault: Callable[[int, str], Fault | None] = lambda _number, _request: None
    """The faults of requests that write (PUT, POST, DELETE), by number and `METHOD path?query`."""
    url: str = ""
    writes: list[str] = field(default_factory=list)
    sent_bytes: int = 0
    """Bytes of the bodies of all requests."""
    requests: list[str] = field(default_factory=list)
    """`METHOD path?query` of all requests."""
    paths: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)


@contextmanager
def s3_proxy(
    backend: str,
    fault: Callable[[int, str, str], Fault | None] = lambda *_: None,
    *,
    write_fault: Callable[[int, str], Fault | None] = lambda *_: None,
) -> Iterator[Proxy]:
    """The proxy, on a port of its own, for the time of a `with` block."""
    state = Proxy(fault=fault, write_fault=write_fault)
    lock = threading.Lock()
    address = urlsplit(backend).netloc

    class Handler(QuietHandler):
        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            with lock:
                state.sent_bytes += len(body)
                state.requests.append(f"{self.command} {self.path}")
            found = None
            if self.command == "GET" and "?" not in self.path:
                with lock:
                    state.paths.append(self.path)
                    state.ranges.append(self.headers.get("range", ""))
                    found = state.fault(len(state.paths) - 1, self.path, state.ranges[-1])
            elif self.command in ("PUT", "POST", "DELETE"):
                with lock:
                    state.writes.append(f"{self.command} {self.path}")
                    found = state.write_fault(len(state.writes) - 1, state.writes[-1])
            if found is not None and found.kind in ANSWERS:
                status, words = ANSWERS[found.kind]
                self._answer(status, [("Content-Type", "application/xml")], words)
                return
            connection = http.client.HTTPConnection(address, timeout=60)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            headers = [item for item in answer.getheaders() if item[0].lower() not in ("connection", "date", "server")]
            if found is not None and found.kind == "flip":
                content = content[: found.after] + bytes([content[found.after] ^ 1]) + content[found.after + 1 :]
            self._answer(answer.status, headers, content, cut=found.after if found and found.kind == "cut" else None)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = forward  # noqa: N815 - names that http.server calls

        def _answer(
            self, status: int, headers: list[tuple[str, str]], content: bytes, *, cut: int | None = None
        ) -> None:
            with suppress(ConnectionError):
                self.send_response(status)
                for name, value in headers:
                    if name.lower() not in ("content-length", "transfer-encoding") or self.command == "HEAD":
                        self.send_header(name, value)
                if self.command != "HEAD":
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content if cut is None else content[:cut])
            if cut is not None:
                self.close_connection = True

    with served(Handler) as state.url:
        yield state
