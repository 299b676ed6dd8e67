"""The client believes a literal OK and nothing else."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from modelctl.errors import CannotDecideError, InputError
from modelctl.scan.clamd import Clamd, Clean, Found, NotScanned
from tests.support.clamd import FalseClamd


@pytest.fixture
def server() -> Iterator[FalseClamd]:
    server = FalseClamd()
    yield server
    server.close()


def scan(server: FalseClamd, content: bytes = b"x" * 3_000_000) -> object:
    return Clamd(server.address).scan(io.BytesIO(content))


def test_literal_ok_is_clean_and_every_byte_was_sent(server: FalseClamd) -> None:
    content = bytes(range(256)) * 10_000
    told: list[float] = []
    assert Clamd(server.address).scan(io.BytesIO(content), advance=told.append) == Clean()
    assert bytes(server.received) == content
    assert sum(told) == len(content)


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (b"stream: Eicar-Test FOUND\0", Found(signature="Eicar-Test")),
        (b"stream: A: odd OK FOUND\0", Found(signature="A: odd OK")),
    ],
)
def test_a_signature_is_found(server: FalseClamd, answer: bytes, reply: Found) -> None:
    server.answers[b"INSTREAM"] = answer
    assert scan(server) == reply


@pytest.mark.parametrize(
    "answer",
    [
        b"stream: Heuristics.Limits.Exceeded.MaxFileSize FOUND\0",
        b"stream: Heuristics.Encrypted.Zip FOUND\0",
        b"INSTREAM size limit exceeded. ERROR\0",
        b"stream: Can't allocate memory ERROR\0",
    ],
)
def test_limits_and_errors_are_not_scanned(server: FalseClamd, answer: bytes) -> None:
    server.answers[b"INSTREAM"] = answer
    assert isinstance(scan(server), NotScanned)


@pytest.mark.parametrize(
    "answer", [None, b"", b"\0", b"stream: OK", b"OK\0", b"stream: ok\0", b"stream: OK\nstream: OK\0", b"x" * 100_000]
)
def test_any_other_answer_decides_nothing(server: FalseClamd, answer: bytes | None) -> None:
    server.answers[b"INSTREAM"] = answer
    with pytest.raises(CannotDecideError):
        scan(server)


def test_hanging_up_in_the_middle_is_never_clean(server: FalseClamd) -> None:
    server.hang_up_after = 1_000_000
    content = b"x" * 64_000_000
    with contextlib.suppress(CannotDecideError):
        assert isinstance(scan(server, content), NotScanned)


def test_a_slow_ok_is_not_believed(server: FalseClamd) -> None:
    reply = Clamd(server.address).scan(io.BytesIO(b"x"), trusted_scan_s=0.0)
    assert isinstance(reply, NotScanned)
    assert "MaxScanTime" in reply.reason


def test_version_with_and_without_a_database(server: FalseClamd) -> None:
    version = Clamd(server.address).version()
    assert (version.engine, version.database) == ("ClamAV 1.4.6", 27500)
    assert version.database_date == datetime(2026, 11, 30, 8, tzinfo=UTC)
    server.answers[b"VERSION"] = b"ClamAV 1.4.6\0"
    assert Clamd(server.address).version().database is None


@pytest.mark.parametrize("answer", [b"220 smtp ready\0", b"ClamAV 1.4.6/27500/yesterday\0"])
def test_another_service_is_no_clamd(server: FalseClamd, answer: bytes) -> None:
    server.answers |= {b"VERSION": answer, b"PING": answer}
    with pytest.raises(CannotDecideError):
        Clamd(server.address).version()
    with pytest.raises(CannotDecideError, match="no clamd"):
        Clamd(server.address).ping()


@pytest.mark.parametrize("address", ["/nowhere/clamd.sock", "127.0.0.1:1", "/" + "x" * 200])
def test_an_unreachable_clamd_names_the_next_command(address: str) -> None:
    with pytest.raises(CannotDecideError) as caught:
        Clamd(address).ping()
    assert address in caught.value.message
    assert "modelctl services up" in (caught.value.remedy or "")


@pytest.mark.parametrize("address", ["", "localhost", ":3310", "host:0", "host:99999", "host:port"])
def test_a_malformed_address_is_an_input_error(address: str) -> None:
    with pytest.raises(InputError, match="host:port"):
        Clamd(address)
