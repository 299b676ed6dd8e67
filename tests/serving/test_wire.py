"""HTTP as engines, proxies and broken servers write it, byte by byte."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from modelctl.serving.endpoint import Endpoint
from modelctl.serving.wire import NoConnectionError, Wire

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Heard:
    def __init__(self) -> None:
        self.status: int | None = None
        self.body = b""
        self.refused: tuple[int, str] | None = None
        self.reads = 0

    def refuse(self, status: int, body: str) -> None:
        self.refused = (status, body)

    def feed(self, chunk: bytes, at_s: float) -> None:
        self.body += chunk
        self.reads += 1


def exchange(
    folder: Path, answer: bytes, *, times: int = 1, piece: int | None = None, close_after: bool = False
) -> tuple[list[Heard], int, list[bytes]]:
    """POST `times` to a server that always answers these bytes: what was heard, connections, requests."""
    connections, requests = 0, []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            requests.append(head + await reader.readexactly(length))
            for begin in range(0, len(answer), piece or len(answer)):
                writer.write(answer[begin : begin + (piece or len(answer))])
                await writer.drain()
                if piece:
                    await asyncio.sleep(0)
            if close_after:
                writer.close()
                return

    async def run() -> list[Heard]:
        server = await asyncio.start_unix_server(serve, folder / "s")
        endpoint = Endpoint(base_url="http://engine", model="m", max_model_len=None, socket=folder / "s")
        wire = Wire(endpoint, headers={"Authorization": "Bearer k"}, origin_s=0.0)
        heard = [Heard() for _ in range(times)]
        try:
            for sink in heard:
                await asyncio.wait_for(wire.post("/v1/completions", b"{}", sink), 5)
                await asyncio.sleep(0.01)
        finally:
            wire.close()
            server.close()
        return heard

    return asyncio.run(run()), connections, requests


@pytest.mark.parametrize("piece", [None, 1, 7])
@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (HEAD + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", b"abcde"),
        (HEAD + b"3\r\nabc\r\n0\r\nTrailer: t\r\n\r\n", b"abc"),
        (HEAD + b"0\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd", b"abcd"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", b"hi"),
    ],
)
def test_answers_in_any_pieces_and_connections_used_again(
    tmp_path: Path, answer: bytes, body: bytes, piece: int | None
) -> None:
    heard, connections, requests = exchange(tmp_path, answer, times=3, piece=piece)
    assert [sink.body for sink in heard] == [body] * 3
    assert [sink.status for sink in heard] == [200] * 3
    assert connections == 1
    assert requests[0].startswith(b"POST /v1/completions HTTP/1.1\r\nHost: engine\r\n")
    assert b"Authorization: Bearer k\r\n" in requests[0]


def test_an_answer_that_ends_with_the_connection(tmp_path: Path) -> None:
    heard, connections, _ = exchange(tmp_path, b"HTTP/1.0 200 OK\r\n\r\nabc", times=2, close_after=True)
    assert [sink.body for sink in heard] == [b"abc"] * 2
    assert connections == 2


def test_a_kept_connection_that_was_closed_meanwhile_is_replaced(tmp_path: Path) -> None:
    heard, connections, _ = exchange(tmp_path, HEAD + b"1\r\na\r\n0\r\n\r\n", times=2, close_after=True)
    assert [sink.body for sink in heard] == [b"a"] * 2
    assert connections == 2


def test_a_refusal_brings_its_body_and_a_long_one_its_beginning(tmp_path: Path) -> None:
    heard, connections, _ = exchange(tmp_path, b"HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nwhy", times=2)
    assert heard[0].refused == (404, "why")
    assert connections == 1
    (tmp_path / "s").unlink()
    long = b"HTTP/1.1 500 No\r\nContent-Length: 99999\r\n\r\n" + b"x" * 99_999
    heard, connections, _ = exchange(tmp_path, long, times=2)
    assert heard[1].refused == (500, "x" * 4096)
    assert connections == 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "not HTTP"),
        (HEAD + b"zz\r\nabc\r\n", "not HTTP"),
        (HEAD + b"-5\r\nabc\r\n", "a chunk of -5 bytes"),
        (HEAD + b"ffffffffff\r\nabc\r\n", "a chunk of"),
        (HEAD + b"a" * 2000, "without a size"),
        (b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000, "header fields of more than"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length"),
    ],
)
def test_what_is_no_http_is_said(tmp_path: Path, answer: bytes, words: str) -> None:
    with pytest.raises(ConnectionError, match=words):
        exchange(tmp_path, answer)


@pytest.mark.parametrize(
    "answer", [HEAD + b"3\r\nab", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab", b"HTTP/1.1 2"]
)
def test_an_answer_that_is_cut_is_an_error(tmp_path: Path, answer: bytes) -> None:
    with pytest.raises(ConnectionError, match="before the answer's end"):
        exchange(tmp_path, answer, close_after=True)


def test_nobody_there(tmp_path: Path) -> None:
    async def run() -> None:
        endpoint = Endpoint(base_url="http://127.0.0.1:9", model="m", max_model_len=None)
        await Wire(endpoint, headers={}, origin_s=0.0).post("/", b"", Heard())

    with pytest.raises(NoConnectionError):
        asyncio.run(run())
