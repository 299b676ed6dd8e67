"""Windows overlap, find what lies across their borders, and prove their limits on a real clamd."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import pytest

from modelctl.errors import CannotDecideError
from modelctl.scan.clamd import Clamd, Clean, Found, NotScanned, Readable, ScanReply
from modelctl.scan.proof import EndMarked, prove
from modelctl.scan.windows import Windows, scan_stream
from modelctl.services.eicar import eicar
from tests.support.clamd import real_clamd

SMALL = Windows(size_bytes=100, overlap_bytes=10)


class Recorder(Clamd):
    """Keeps the windows it is sent."""

    def __init__(self) -> None:
        super().__init__("/nowhere/clamd.sock")
        self.windows: list[bytes] = []

    def scan(self, stream: Readable, **_: object) -> ScanReply:
        content = b""
        while part := stream.read(7):
            content += part
        self.windows.append(content)
        if b"limit" in content:
            return NotScanned(reason="limit")
        return Found(signature="bad") if b"bad" in content else Clean()


@pytest.mark.parametrize("length", [0, 1, 99, 100, 101, 190, 191, 1000])
def test_windows_cover_every_byte_and_overlap(length: int) -> None:
    content = bytes(index % 251 for index in range(length))
    recorder = Recorder()
    told: list[float] = []
    scanned = scan_stream(recorder, io.BytesIO(content), windows=SMALL, advance=told.append)
    assert scanned.size_bytes == length == sum(told)
    assert scanned.windows == len(recorder.windows) == max(1, -(-(length - 10) // 90))
    assert recorder.windows[0] + b"".join(window[10:] for window in recorder.windows[1:]) == content
    for before, after in zip(recorder.windows, recorder.windows[1:], strict=False):
        assert len(before) == 100
        assert after[:10] == before[-10:]


def test_what_is_found_on_the_way_does_not_end_the_scan_and_a_limit_does() -> None:
    content = bytearray(1000)
    content[150:153] = content[700:703] = b"bad"
    scanned = scan_stream(Recorder(), io.BytesIO(bytes(content)), windows=SMALL)
    assert (scanned.reply, scanned.offset, scanned.found_in) == (Found(signature="bad"), 90, 2)
    assert (scanned.size_bytes, scanned.windows) == (1000, 11)
    content[400:405] = b"limit"
    scanned = scan_stream(Recorder(), io.BytesIO(bytes(content)), windows=SMALL)
    assert (scanned.reply, scanned.found_in) == (Found(signature="bad"), 1)
    assert scanned.size_bytes < 1000


def test_an_overlap_of_half_a_window_is_the_most() -> None:
    with pytest.raises(ValueError, match="half"):
        Windows(size_bytes=100, overlap_bytes=51)


@pytest.mark.parametrize("length", [0, 400, 100_000])
def test_the_marked_stream_is_a_zip_of_that_length(length: int) -> None:
    stream, content = EndMarked(length), b""
    while part := stream.read(1000):
        content += part
    assert len(content) == max(length, len(content)) <= max(length, 400)
    assert zipfile.ZipFile(io.BytesIO(content)).read("marker") == eicar()


@pytest.fixture(scope="module")
def clamd() -> Iterator[Clamd]:
    with real_clamd() as (clamd, _):
        yield clamd


@pytest.mark.services
@pytest.mark.parametrize("at", [0, (4 << 20) - 30, (7 << 20) + 12345, (10 << 20) - 68])
def test_a_signature_is_found_wherever_it_lies(clamd: Clamd, at: int) -> None:
    content = bytearray(10 << 20)
    content[at : at + 68] = eicar()
    windows = Windows(size_bytes=4 << 20)
    scanned = scan_stream(clamd, io.BytesIO(bytes(content)), windows=windows)
    assert isinstance(scanned.reply, Found)
    assert scanned.offset <= at < scanned.offset + windows.size_bytes


@pytest.mark.services
def test_clean_streams_are_clean_and_the_proof_holds(clamd: Clamd) -> None:
    assert scan_stream(clamd, io.BytesIO(bytes(5 << 20)), windows=Windows()).reply == Clean()
    assert "Eicar" in prove(clamd, size_bytes=20 << 20, windows=Windows())


@pytest.mark.services
@pytest.mark.parametrize(
    "limits",
    [
        {"StreamMaxLength": "5M"},
        {"MaxFileSize": "5M"},
        {"MaxFileSize": "5M", "AlertExceedsMax": "no"},
        {"MaxScanSize": "5M", "AlertExceedsMax": "no"},
        {"MaxScanTime": "1", "AlertExceedsMax": "no"},
    ],
    ids=str,
)
def test_limits_that_are_too_small_fail_the_proof(limits: dict[str, str]) -> None:
    with real_clamd(replace=limits) as (clamd, _), pytest.raises(CannotDecideError) as caught:
        prove(clamd, size_bytes=64 << 20, windows=Windows())
    assert "clamd.conf" in (caught.value.remedy or "") or "freshclam" in (caught.value.remedy or "")


@pytest.mark.services
def test_a_stream_over_the_limit_is_not_scanned() -> None:
    with real_clamd(replace={"StreamMaxLength": "2M"}) as (clamd, _):
        reply = clamd.scan(io.BytesIO(bytes(40 << 20)))
    assert isinstance(reply, NotScanned)
    assert "limit" in reply.reason
