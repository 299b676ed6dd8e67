"""The client believes a literal OK and nothing else."""

from __future__ import annotations

import contextlib
import io
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError, InputError
from modelctl.scan import clamd as module
from modelctl.scan.clamd import Clamd, Clean, Found, NotScanned
from modelctl.services import clamd_conf
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
        b"stream: Heuristics.Limits.Exceeded.MaxScanTime FOUND\0",
        b"stream: Heuristics.Encrypted.Zip FOUND\0",
        b"INSTREAM size limit exceeded. ERROR\0",
        b"stream: Can't allocate memory ERROR\0",
    ],
)
def test_limits_and_errors_are_not_scanned(server: FalseClamd, answer: bytes) -> None:
    server.answers[b"INSTREAM"] = answer
    assert isinstance(scan(server), NotScanned)


@pytest.mark.parametrize(
    "answer",
    [
        None, b"", b"\0", b"stream: OK", b"str", b"OK\0", b"stream: ok\0", b"stream: OK\nstream: OK\0", b"x" * 100_000,
        b"!!!!", b"!!!!\0", b" stream: OK\0", b"stream: OK \0", b"1: stream: OK\0", b"stream: OK\n\0", b"/x: OK\0",
        b"stream: FOUND\0", b"stream: \xff\0", b"\0stream: OK\0",
    ],
)  # fmt: skip
def test_any_other_answer_decides_nothing(server: FalseClamd, answer: bytes | None) -> None:
    server.answers[b"INSTREAM"] = answer
    with pytest.raises(CannotDecideError):
        scan(server)


def test_hanging_up_in_the_middle_is_never_clean(server: FalseClamd) -> None:
    server.hang_up_after = 1_000_000
    content = b"x" * 64_000_000
    with contextlib.suppress(CannotDecideError):
        assert isinstance(scan(server, content), NotScanned)


def test_a_reset_connection_decides_nothing(server: FalseClamd) -> None:
    server.hang_up_after, server.reset = 1_000_000, True
    with pytest.raises(CannotDecideError, match=r"broke|closed the connection"):
        scan(server, b"x" * 64_000_000)


def test_an_answer_in_pieces_is_read_whole(server: FalseClamd) -> None:
    server.pieces = True
    assert scan(server) == Clean()
    server.answers[b"INSTREAM"] = b"stream: Eicar FOUND\0"
    assert scan(server) == Found(signature="Eicar")


def test_a_verdict_that_does_not_come_is_not_scanned(server: FalseClamd) -> None:
    server.silent = True
    started = time.monotonic()
    reply = Clamd(server.address).scan(io.BytesIO(b"x"), trusted_scan_s=0.1)
    assert isinstance(reply, NotScanned)
    assert "MaxScanTime" in reply.reason
    assert time.monotonic() - started < 30


def test_a_clamd_that_takes_nothing_more_is_left(server: FalseClamd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEND_TIMEOUT_S", 0.1)
    server.stall_after = 1
    with pytest.raises(CannotDecideError, match="it takes nothing more"):
        scan(server, b"x" * 64_000_000)


def test_a_stream_that_cannot_be_read_is_the_disks_fault(server: FalseClamd) -> None:
    class Broken:
        def read(self, _size: int, /) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        Clamd(server.address).scan(Broken())


def test_cancel_ends_a_scan_under_way_and_refuses_the_next(server: FalseClamd) -> None:
    server.silent = True
    clamd = Clamd(server.address)
    told = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(clamd.scan, io.BytesIO(b"x"), advance=lambda _: told.set())
        assert told.wait(5)
        clamd.cancel()
        with pytest.raises(CannotDecideError):
            reply.result(5)
    with pytest.raises(CannotDecideError, match="cancelled"):
        clamd.scan(io.BytesIO(b"x"))


def test_version_with_and_without_a_database(server: FalseClamd) -> None:
    version = Clamd(server.address).version()
    assert (version.engine, version.database) == ("ClamAV 1.4.6", 27500)
    assert version.database_date == datetime(2026, 11, 30, 8, tzinfo=UTC)
    server.answers[b"VERSION"] = b"ClamAV 1.4.6\0"
    assert Clamd(server.address).version().database is None


@pytest.mark.parametrize("answer", [b"220 smtp ready\0", b"ClamAV 1.4.6/27500/yesterday\0"])
def test_another_service_is_no_clamd(server: FalseClamd, answer: bytes) -> None:
    server.answers |= {b"VERSION": answer}
    with pytest.raises(CannotDecideError, match=r"no clamd|unreadable database date"):
        Clamd(server.address).version()


@pytest.mark.parametrize("address", ["/nowhere/clamd.sock", "127.0.0.1:1", "/" + "x" * 200])
def test_an_unreachable_clamd_names_the_next_command(address: str) -> None:
    with pytest.raises(CannotDecideError) as caught:
        Clamd(address).version()
    assert address in caught.value.message
    assert "modelctl services up" in (caught.value.remedy or "")


@pytest.mark.parametrize("address", ["", "localhost", ":3310", "host:0", "host:99999", "host:port"])
def test_a_malformed_address_is_an_input_error(address: str) -> None:
    with pytest.raises(InputError, match="host:port"):
        Clamd(address)


def test_a_clamd_without_signatures_cannot_answer_and_the_message_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "clamd.conf"
    configuration.write_text(f"LocalSocket {tmp_path}/clamd.ctl\nDatabaseDirectory {tmp_path}/signatures\n")
    monkeypatch.setattr(clamd_conf, "DEFAULT_PATHS", (configuration,))
    with pytest.raises(CannotDecideError, match="holds no signatures") as caught:
        Clamd(f"{tmp_path}/clamd.ctl").version()
    assert "freshclam" in (caught.value.remedy or "")
