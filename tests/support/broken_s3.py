"""A server that speaks as much S3 as its faults need: every request gets the answer that a test has set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.http_server import QuietHandler, served

Answer = tuple[int, str, bytes]
"""Status, content type, body."""


@dataclass
class BrokenS3:
    """What the server answers, and what it was asked: (method, path, headers in lower case)."""

    answer: Callable[[str, str, dict[str, str]], Answer | None]
    """None closes the connection without a word."""
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    url: str = ""
    withheld: dict[str, int] = field(default_factory=dict)
    """By path: how many bytes more than it sends the server announces; it then says nothing."""


@contextmanager
def broken_s3(answer: Callable[[str, str, dict[str, str]], Answer | None]) -> Iterator[BrokenS3]:
    """The server, on a port of its own, for the time of a `with` block."""
    state = BrokenS3(answer=answer)

    class Handler(QuietHandler):
        def handle_one(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.rfile.read(int(headers.get("content-length", 0)))
            state.requests.append((self.command, self.path, headers))
            reply = state.answer(self.command, self.path, headers)
            if reply is None:
                self.close_connection = True
                return
            status, content_type, body = reply
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body) + state.withheld.get(self.path, 0)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = handle_one  # noqa: N815 - names that http.server calls

    with served(Handler) as state.url:
        yield state
