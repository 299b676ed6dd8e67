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
                await asyncio.wait_for(wire.post("/v1/completions", b"{}", sink), 60)
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


def test_a_certificate_is_verified_and_a_private_authority_can_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ssl

    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(HEAD + b"2\r\nok\r\n0\r\n\r\n")
        await writer.drain()
        await reader.read()
        writer.close()

    async def run() -> Heard:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        endpoint = Endpoint(base_url=f"https://localhost:{port}", model="m", max_model_len=None)
        wire, heard = Wire(endpoint, headers={}, origin_s=0.0), Heard()
        try:
            await asyncio.wait_for(wire.post("/v1/completions", b"{}", heard), 60)
        finally:
            wire.close()
            server.close()
        return heard

    with pytest.raises(NoConnectionError, match="certificate verify failed"):
        asyncio.run(run())
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert asyncio.run(run()).body == b"ok"


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate of `localhost` and its key."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(pem))
    paths[1].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return paths
