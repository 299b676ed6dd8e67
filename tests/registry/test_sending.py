"""Sending in parts: bounded memory, an upload that goes on where it broke off, and patience with a busy server."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from modelctl.errors import RefusedError
from modelctl.model.s3_faults import StoreError, StoreUnavailableError
from modelctl.model.tree import FileEntry
from modelctl.registry import sending
from modelctl.registry.checked import CheckedParts
from modelctl.registry.multipart import MultipartUpload, abandon_uploads, open_uploads
from modelctl.registry.sending import PART_BYTES, Sending, send_files
from modelctl.registry.store import ObjectStore
from modelctl.services.process import Running
from tests.registry.conftest import a_store
from tests.support.broken_s3 import Answer, broken_s3
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

KEY = "tiny/1.0.0/model + ü.safetensors"


def nothing(_amount: float) -> None:
    pass


def a_sending(path: Path, content: bytes, *, key: str = KEY) -> Sending:
    path.write_bytes(content)
    entry = FileEntry(path=path.name, size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    return Sending(key=key, path=path, entry=entry)


def of_parts(count: int, *, rest: int = 7) -> bytes:
    """Bytes of so many parts and a rest, no two parts alike."""
    return b"".join(bytes([number]) * PART_BYTES for number in range(count)) + b"r" * rest


@pytest.fixture
def any_store(any_store: ObjectStore) -> ObjectStore:
    """With its bucket."""
    any_store.ensure_bucket()
    any_store.ensure_bucket()
    return any_store


@pytest.fixture
def put_parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the parts that are sent."""
    numbers: list[int] = []
    original = MultipartUpload.put

    def counted(self: MultipartUpload, number: int, data: memoryview) -> str:
        numbers.append(number)
        return original(self, number, data)

    monkeypatch.setattr(MultipartUpload, "put", counted)
    return numbers


class TestParts:
    @pytest.mark.parametrize(("size", "sizes"), [(0, [0]), (1, [1]), (4, [4]), (5, [4, 1]), (8, [4, 4])])
    def test_they_are_the_file(self, tmp_path: Path, size: int, sizes: list[int]) -> None:
        item = a_sending(tmp_path / "f", bytes(range(size)))
        parts = CheckedParts(item.path, item.entry, part_bytes=4)
        assert parts.count == len(sizes)
        with parts:
            found = [bytes(parts.read(bytearray(4))) for _ in sizes]
        assert [len(part) for part in found] == sizes
        assert [parts.size_of(number) for number in range(1, parts.count + 1)] == sizes
        assert b"".join(found) == bytes(range(size))

    @pytest.mark.parametrize("now", [b"abcdefghiX", b"abcdefghijk", b"abcdefghi", b"abcd", b""])
    def test_the_last_one_of_other_bytes_is_never_handed_out(self, tmp_path: Path, now: bytes) -> None:
        item = a_sending(tmp_path / "f", b"abcdefghij")
        item.path.write_bytes(now)
        handed_out = bytearray()
        parts = CheckedParts(item.path, item.entry, part_bytes=4)
        with parts, pytest.raises(RefusedError, match="not the bytes that were admitted"):
            handed_out.extend(byte for _ in range(3) for byte in parts.read(bytearray(4)))
        assert len(handed_out) <= 8


@pytest.mark.services
class TestGoingOn:
    def interrupted(self, store: ObjectStore, item: Sending, monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
        """Send, and break off after so many parts have arrived."""
        original, lock, arrived = MultipartUpload.put, threading.Lock(), [0]

        def breaks(self: MultipartUpload, number: int, data: memoryview) -> str:
            with lock:
                if arrived[0] == after:
                    raise StoreError("the network is gone")
                arrived[0] += 1
            return original(self, number, data)

        with monkeypatch.context() as patch:
            patch.setattr(MultipartUpload, "put", breaks)
            with pytest.raises(StoreError, match="network is gone"):
                send_files(store, [item], nothing)
        assert store.sizes("tiny/") == {}

    def test_only_what_is_missing_is_sent(
        self, any_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put_parts: list[int]
    ) -> None:
        content = of_parts(4)
        item = a_sending(tmp_path / "f", content)
        self.interrupted(any_store, item, monkeypatch, after=3)
        put_parts.clear()
        seen: list[float] = []
        send_files(any_store, [item], seen.append)
        assert len(put_parts) == 2
        assert sum(seen) == len(content)
        assert any_store.read(KEY) == content
        found = any_store.stat(KEY)
        assert found is not None
        assert found.sha256 == item.entry.sha256
        assert list(open_uploads(any_store.server, any_store.bucket, KEY)) == []

    def test_parts_of_other_bytes_are_sent_again_and_the_object_says_its_own_hash(
        self, any_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The upload that is found was begun for another file of the same name and size."""
        other = a_sending(tmp_path / "f", of_parts(3)[::-1])
        self.interrupted(any_store, other, monkeypatch, after=2)
        item = a_sending(tmp_path / "f", of_parts(3))
        send_files(any_store, [item], nothing)
        found = any_store.stat(KEY)
        assert found is not None
        assert found.sha256 == item.entry.sha256
        assert any_store.read(KEY) == of_parts(3)

    def test_the_upload_that_has_most_goes_on_and_the_others_are_given_up(
        self, any_store: ObjectStore, tmp_path: Path, put_parts: list[int]
    ) -> None:
        content = of_parts(2)
        item = a_sending(tmp_path / "f", content)
        for count in (1, 2, 0):
            upload = MultipartUpload.start(any_store.server, any_store.bucket, KEY, {"sha256": item.entry.sha256})
            for number in range(1, count + 1):
                upload.put(number, content[(number - 1) * PART_BYTES : number * PART_BYTES])
        put_parts.clear()
        send_files(any_store, [item], nothing)
        assert put_parts == [3]
        assert list(open_uploads(any_store.server, any_store.bucket, KEY)) == []

    def test_changed_bytes_leave_no_parts(self, any_store: ObjectStore, tmp_path: Path) -> None:
        item = a_sending(tmp_path / "f", of_parts(2))
        item.path.write_bytes(of_parts(2)[:-1] + b"X")
        with pytest.raises(RefusedError, match="not the bytes that were admitted"):
            send_files(any_store, [item], nothing)
        assert any_store.sizes("") == {}
        assert list(open_uploads(any_store.server, any_store.bucket, KEY)) == []

    def test_uploads_below_a_prefix_are_given_up(self, any_store: ObjectStore) -> None:
        MultipartUpload.start(any_store.server, any_store.bucket, "tiny/1.0.0/a", {}).put(1, b"a")
        MultipartUpload.start(any_store.server, any_store.bucket, "other/1.0.0/a", {}).put(1, b"a")
        assert abandon_uploads(any_store.server, any_store.bucket, "tiny/1.0.0/a") == 1
        assert [item.key for item in open_uploads(any_store.server, any_store.bucket, "other/1.0.0/a")] == [
            "other/1.0.0/a"
        ]

    def test_an_upload_that_someone_else_gave_up_is_told(
        self, any_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = MultipartUpload.complete

        def overtaken(self: MultipartUpload, etags: Any) -> None:
            self.abort()
            original(self, etags)

        monkeypatch.setattr(MultipartUpload, "complete", overtaken)
        with pytest.raises(RefusedError, match="someone else writes to the same release"):
            send_files(any_store, [a_sending(tmp_path / "f", of_parts(1))], nothing)


@pytest.mark.services
def test_many_files_at_once_and_the_first_failure_ends_all(any_store: ObjectStore, tmp_path: Path) -> None:
    files = [a_sending(tmp_path / f"f{n}", bytes([n]) * 1000, key=f"m/{n}") for n in range(40)]
    send_files(any_store, files, nothing)
    assert len(any_store.sizes("m/")) == 40
    files[7].path.write_bytes(b"other")
    with pytest.raises(RefusedError, match="f7"):
        send_files(any_store, files, nothing)


@pytest.mark.parametrize("failures", [2, 10_000])
def test_a_busy_server_is_asked_again_with_growing_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    monkeypatch.setattr(sending, "PATIENCE_S", (0.01, 0.02, 0.03))
    slow_down = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>"
    puts = [0]

    def answer(method: str, _path: str, _headers: dict[str, str]) -> Answer:
        if method != "PUT":
            return 404, "application/xml", b""
        puts[0] += 1
        return (503, "application/xml", slow_down) if puts[0] <= failures else (200, "application/xml", b"")

    with broken_s3(answer) as server:
        store = ObjectStore(endpoint=server.url, bucket="models", access_key="a", secret_key="b", region="us-east-1")
        store.server = store.server.__class__(
            endpoint=server.url, access_key="a", secret_key="b", region="us-east-1", retries=0
        )
        item = a_sending(tmp_path / "f", b"x")
        if failures < 10:
            send_files(store, [item], nothing)
            assert puts[0] == failures + 1
        else:
            with pytest.raises(StoreUnavailableError, match="too much to do") as caught:
                send_files(store, [item], nothing)
            assert puts[0] == 4
            assert "same command again" in str(caught.value.remedy)


MEASURED = """
import re, sys
from pathlib import Path
from modelctl.model.tree import FileEntry, hash_file
from modelctl.registry.sending import Sending, send_files
from modelctl.registry.store import ObjectStore
endpoint, bucket, access_key, secret_key, *paths = sys.argv[1:]
store = ObjectStore(endpoint=endpoint, bucket=bucket, access_key=access_key, secret_key=secret_key)
files = [
    Sending(key=f"m/{n}", path=Path(p), entry=FileEntry(p, Path(p).stat().st_size, hash_file(Path(p))))
    for n, p in enumerate(paths)
]
send_files(store, files, lambda _: None)
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.services
def test_memory_does_not_grow_with_the_files(rclone: Running, tmp_path: Path) -> None:
    store = a_store(rclone.address)
    store.ensure_bucket()
    paths = []
    for number in range(4):
        path = tmp_path / str(number)
        path.touch()
        os.truncate(path, 48 << 20)
        paths.append(str(path))
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, rclone.address, store.bucket, ACCESS_KEY, SECRET_KEY, *paths],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout) < 130
    assert set(store.sizes("m/").values()) == {48 << 20}
