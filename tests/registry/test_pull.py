"""Downloads: the folder appears whole and verified, or not at all."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import os
import random
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from modelctl.errors import InputError, ModelctlError, RefusedError
from modelctl.model.s3_faults import StoreError
from modelctl.model.tree import scan_tree
from modelctl.registry import incoming, ranged
from modelctl.registry.incoming import Incoming
from modelctl.registry.pull import pull
from modelctl.registry.store import ObjectStore
from modelctl.services.process import Running, running, stop
from modelctl.services.s3 import s3_server
from tests.registry.conftest import a_store
from tests.support.bucket import Placed, overwrite, place
from tests.support.s3_proxy import Fault, s3_proxy
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

pytestmark = pytest.mark.services
PART = 64 << 10
WEIGHTS = random.Random(7).randbytes(20 * PART + 77)
KEY = "tiny/1.0.0/w/a.safetensors"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "PART_BYTES", PART)
    monkeypatch.setattr(ranged, "SPAN_PARTS", 2)
    monkeypatch.setattr(ranged, "WAITS_S", (0.01, 0.01, 0.02, 0.05, 0.1))


@pytest.fixture
def release(store: ObjectStore) -> Placed:
    return place(store, {"config.json": b"{}\n", "w/a.safetensors": WEIGHTS, "w/empty": b""})


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("server", ["store", "strict_store"])
def test_the_folder_is_the_release(request: pytest.FixtureRequest, server: str, tmp_path: Path) -> None:
    store: ObjectStore = request.getfixturevalue(server)
    release = place(store, {"config.json": b"{}\n", "w/a.safetensors": WEIGHTS, "w/empty": b"", "w/größe 1+1": b"z"})
    done = pull(store, release.served, tmp_path / "a" / "b")
    assert done.fetched == ("config.json", "w/a.safetensors", "w/empty", "w/größe 1+1")
    assert scan_tree(tmp_path / "a" / "b").digest == release.served.tree_digest
    assert hidden(tmp_path / "a") == []
    again = pull(store, release.served, tmp_path / "a" / "b")
    assert (again.fetched, again.kept) == ((), done.fetched)
    (tmp_path / "empty").mkdir()
    pull(store, release.served, tmp_path / "empty")
    assert scan_tree(tmp_path / "empty").digest == release.served.tree_digest


def test_the_bytes_are_on_the_disk_before_the_folder_appears(
    release: Placed, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "pulled"
    seen: list[tuple[str, bool]] = []
    original = os.fsync

    def noted(descriptor: int) -> None:
        seen.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, target.exists()))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    pull(store, release.served, target)
    assert {("a.safetensors", False), ("config.json", False), ("empty", False), ("w", False)} < set(seen)
    assert seen[-1] == (tmp_path.name, True)


def test_changed_bytes_in_the_bucket_are_refused_by_name(release: Placed, store: ObjectStore, tmp_path: Path) -> None:
    flipped = WEIGHTS[:-1] + bytes([WEIGHTS[-1] ^ 1])
    for content in (flipped, WEIGHTS[:-5], WEIGHTS + b"x" * 10):
        overwrite(store, KEY, content)
        with pytest.raises(RefusedError, match=f"{KEY} .* is not what was published"):
            pull(store, release.served, tmp_path / "pulled")
        assert not (tmp_path / "pulled").exists()
    store.remove(KEY)
    with pytest.raises(RefusedError, match="it is missing"):
        pull(store, release.served, tmp_path / "pulled")
    overwrite(store, KEY, WEIGHTS)
    pull(store, release.served, tmp_path / "pulled")
    assert hidden(tmp_path) == []


class TestWhatIsThereAlready:
    def test_right_files_are_kept_and_the_rest_is_fetched(
        self, release: Placed, store: ObjectStore, tmp_path: Path
    ) -> None:
        (tmp_path / "dir" / "w").mkdir(parents=True)
        (tmp_path / "dir" / "w" / "a.safetensors").write_bytes(WEIGHTS)
        inode = (tmp_path / "dir" / "w" / "a.safetensors").stat().st_ino
        done = pull(store, release.served, tmp_path / "dir")
        assert (done.kept, done.fetched) == (("w/a.safetensors",), ("config.json", "w/empty"))
        assert (tmp_path / "dir" / "w" / "a.safetensors").stat().st_ino == inode
        assert scan_tree(tmp_path / "dir").digest == release.served.tree_digest
        assert hidden(tmp_path) == []

    def test_strange_files_are_named_and_nothing_is_touched(
        self, release: Placed, store: ObjectStore, tmp_path: Path
    ) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.txt").write_text("years of work")
        with pytest.raises(RefusedError, match=r"thesis\.txt; nothing was changed"):
            pull(store, release.served, tmp_path / "mine", repair=True)
        with pytest.raises(InputError, match="a file where a folder is wanted"):
            pull(store, release.served, tmp_path / "mine" / "thesis.txt")
        assert [path.name for path in tmp_path.rglob("*")] == ["mine", "thesis.txt"]

    def test_changed_files_are_named_and_replaced_only_when_asked(
        self, release: Placed, store: ObjectStore, tmp_path: Path
    ) -> None:
        pull(store, release.served, tmp_path / "dir")
        (tmp_path / "dir" / "config.json").write_text("[]")
        (tmp_path / "dir" / "w" / "empty").unlink()
        (tmp_path / "dir" / "w" / "empty").symlink_to("/etc/hostname")
        with pytest.raises(RefusedError, match=r"other bytes: config\.json, w/empty; nothing was changed") as caught:
            pull(store, release.served, tmp_path / "dir")
        assert "--repair" in str(caught.value.remedy)
        done = pull(store, release.served, tmp_path / "dir", repair=True)
        assert done.fetched == ("config.json", "w/empty")
        assert scan_tree(tmp_path / "dir").digest == release.served.tree_digest

    def test_what_no_folder_can_take_the_place_of(
        self, release: Placed, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        with pytest.raises(InputError, match="a symbolic link") as caught:
            pull(store, release.served, tmp_path / "link")
        assert "link/model" in str(caught.value.remedy)
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        with pytest.raises(InputError, match="holds the working directory"):
            pull(store, release.served, Path())
        pull(store, release.served, Path("../there"))
        assert scan_tree(tmp_path / "there").digest == release.served.tree_digest


class TestInterruptions:
    def test_an_interrupted_download_goes_on_with_the_parts_that_are_missing(
        self, release: Placed, store: ObjectStore, tmp_path: Path, rclone: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = []
        turns = itertools.count(1)
        keep = Incoming.keep

        def interrupted(file: Incoming, number: int) -> None:
            keep(file, number)
            calls.append(number)
            if next(turns) == 9:  # of several workers just one sees it
                raise KeyboardInterrupt

        monkeypatch.setattr(Incoming, "keep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pull(store, release.served, tmp_path / "pulled")
        assert not (tmp_path / "pulled").exists()
        monkeypatch.setattr(Incoming, "keep", keep)
        with s3_proxy(rclone.address, lambda *_: None) as proxy:
            pull(a_store(proxy.url, bucket=store.bucket), release.served, tmp_path / "pulled")
        assert proxy.paths.count(f"/{store.bucket}/{KEY}") <= 21 - len(calls) + 2
        assert scan_tree(tmp_path / "pulled").digest == release.served.tree_digest

    def test_leftovers_that_are_wrong_are_fetched_again(
        self, release: Placed, store: ObjectStore, tmp_path: Path
    ) -> None:
        partial = tmp_path / f".pulled.{release.served.tree_digest[7:19]}.partial"
        (partial / "files" / "w").mkdir(parents=True)
        (partial / "parts").mkdir()
        (partial / "files" / "config.json").write_bytes(b"longer than it should be")
        (partial / "files" / "stranger").write_bytes(b"")
        (partial / "files" / "w" / "empty").symlink_to("/etc/hostname")
        file = Incoming(
            entry=release.served.tree.by_path["w/a.safetensors"],
            key=KEY,
            path=partial / "files" / "w" / "a.safetensors",
            journal=partial / "parts" / _journal_name("w/a.safetensors"),
        )
        file.restart()
        for number in range(5):
            file.keep(number)  # said to be whole, and all zero
        file.journal.write_bytes(file.journal.read_bytes() + b"0000")
        pull(store, release.served, tmp_path / "pulled")
        assert scan_tree(tmp_path / "pulled").digest == release.served.tree_digest

    def test_killed_at_twenty_points_a_rerun_ends_whole(
        self, release: Placed, store: ObjectStore, tmp_path: Path
    ) -> None:
        chance = random.Random(20)
        killed = 0
        for _ in range(20):
            kept = kill_after(store, release, tmp_path / "pulled", chance.randrange(1, 9))
            if (tmp_path / "pulled").exists():  # only when it was whole
                assert scan_tree(tmp_path / "pulled").digest == release.served.tree_digest
                (tmp_path / "pulled").rename(tmp_path / f"whole{len(list(tmp_path.iterdir()))}")
            killed += kept
        assert killed >= 15
        pull(store, release.served, tmp_path / "pulled")
        assert scan_tree(tmp_path / "pulled").digest == release.served.tree_digest
        assert hidden(tmp_path) == []

    @pytest.mark.parametrize("step", range(1, 6))
    def test_killed_while_the_folder_takes_its_place(
        self, release: Placed, store: ObjectStore, tmp_path: Path, step: int
    ) -> None:
        pull(store, release.served, tmp_path / "dir")
        (tmp_path / "dir" / "config.json").write_text("[]")
        assert kill_after(store, release, tmp_path / "dir", step, at="place", repair=True)
        assert not (tmp_path / "dir").exists() or (tmp_path / "dir" / "w" / "a.safetensors").is_file()
        pull(store, release.served, tmp_path / "dir", repair=True)
        assert scan_tree(tmp_path / "dir").digest == release.served.tree_digest
        assert hidden(tmp_path) == []

    def test_two_downloads_into_one_place_do_not_mix(self, release: Placed, store: ObjectStore, tmp_path: Path) -> None:
        partial = tmp_path / f".pulled.{release.served.tree_digest[7:19]}.partial"
        partial.mkdir()
        descriptor = os.open(partial, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with pytest.raises(ModelctlError, match="another download works"):
                pull(store, release.served, tmp_path / "pulled")
        finally:
            os.close(descriptor)


class TestFaults:
    def test_slow_down_and_cut_connections_are_outlived(
        self, release: Placed, store: ObjectStore, tmp_path: Path, rclone: Running
    ) -> None:
        chance = random.Random(3)
        seen: set[tuple[str, str]] = set()

        def fault(_number: int, path: str, asked: str) -> Fault | None:
            if (path, asked) in seen:
                return None
            seen.add((path, asked))
            if chance.random() < 0.5:
                return Fault(kind="slow-down")
            return Fault(kind="cut", after=chance.randrange(PART))

        with s3_proxy(rclone.address, fault) as proxy:
            pull(a_store(proxy.url, bucket=store.bucket), release.served, tmp_path / "pulled")
        assert len(proxy.paths) >= 2 * 11
        assert scan_tree(tmp_path / "pulled").digest == release.served.tree_digest

    def test_a_server_that_stays_slow_is_given_up_and_what_came_is_kept(
        self, release: Placed, store: ObjectStore, tmp_path: Path, rclone: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keep = Incoming.keep
        kept: list[tuple[str, int]] = []

        def noted(file: Incoming, number: int) -> None:
            keep(file, number)
            kept.append((file.key, number))

        def fault(_number: int, _path: str, _range: str) -> Fault | None:
            return Fault(kind="slow-down") if len(kept) >= 4 else None

        monkeypatch.setattr(Incoming, "keep", noted)
        with s3_proxy(rclone.address, fault) as proxy:
            with pytest.raises(StoreError) as caught:
                pull(a_store(proxy.url, bucket=store.bucket), release.served, tmp_path / "pulled")
            assert caught.value.exit_code == 3
            assert 4 <= len(kept) < 22
            proxy.fault = lambda *_: None
            pull(a_store(proxy.url, bucket=store.bucket), release.served, tmp_path / "pulled")
        assert len(kept) == len(set(kept)) == 22  # one of config.json, and each came once
        assert scan_tree(tmp_path / "pulled").digest == release.served.tree_digest

    def test_a_byte_that_changes_on_the_way_is_refused_by_name(
        self, release: Placed, store: ObjectStore, tmp_path: Path, rclone: Running
    ) -> None:
        def fault(_number: int, path: str, _range: str) -> Fault | None:
            return Fault(kind="flip", after=5) if path.endswith("a.safetensors") else None

        with s3_proxy(rclone.address, fault) as proxy, pytest.raises(RefusedError, match=KEY):
            pull(a_store(proxy.url, bucket=store.bucket), release.served, tmp_path / "pulled")
        assert not (tmp_path / "pulled").exists()
        pull(store, release.served, tmp_path / "pulled")

    def test_a_wrong_secret_is_said_at_once(self, release: Placed, store: ObjectStore, tmp_path: Path) -> None:
        wrong = a_store(store.server.endpoint, secret_key="wrong-secret-1", bucket=store.bucket)
        with pytest.raises(StoreError, match="refused the access key") as caught:
            pull(wrong, release.served, tmp_path / "pulled")
        assert "wrong-secret-1" not in str(caught.value)
        assert not (tmp_path / "pulled").exists()

    def test_a_full_disk_is_known_before_the_download(
        self, release: Placed, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Usage:
            free = 1000

        monkeypatch.setattr("shutil.disk_usage", lambda _: Usage)
        with pytest.raises(ModelctlError, match="1000 are free"):
            pull(store, release.served, tmp_path / "pulled")

    def test_a_disk_that_fills_up_keeps_what_came(
        self, release: Placed, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pwrite = os.pwrite
        calls = []

        def filling(descriptor: int, block: memoryview, offset: int) -> int:
            calls.append(offset)
            if len(calls) == 4:
                return pwrite(descriptor, block[:100], offset)  # the last bytes that fit
            if len(calls) > 4:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return pwrite(descriptor, block, offset)

        monkeypatch.setattr(os, "pwrite", filling)
        with pytest.raises(OSError, match="No space"):
            pull(store, release.served, tmp_path / "pulled")
        assert not (tmp_path / "pulled").exists()
        monkeypatch.setattr(os, "pwrite", pwrite)
        pull(store, release.served, tmp_path / "pulled")
        assert scan_tree(tmp_path / "pulled").digest == release.served.tree_digest


def _journal_name(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()


def kill_after(
    store: ObjectStore, release: Placed, folder: Path, steps: int, *, at: str = "any", repair: bool = False
) -> bool:
    """Pull in a child that kills itself before its step number `steps`; whether it did."""
    child = os.fork()
    if child == 0:
        try:
            _die(steps, at)
            pull(a_store(store.server.endpoint, bucket=store.bucket), release.served, folder, repair=repair)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9


def _die(steps: int, at: str) -> None:
    left = [steps]

    def counted(owner: object, name: str) -> None:
        original = getattr(owner, name)

        def call(*arguments: object, **options: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), 9)
            return original(*arguments, **options)

        setattr(owner, name, call)

    counted(Path, "rename")
    counted(shutil, "rmtree")
    if at == "any":
        counted(incoming, "_write")
        counted(Incoming, "keep")


def test_a_server_that_dies_and_comes_back_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged, "WAITS_S", (0.2,) * 100)
    service = s3_server(tmp_path / "s3", access_key=ACCESS_KEY, secret_key=SECRET_KEY)
    port = int(service.address.rpartition(":")[2])
    with running(service) as server:
        store = a_store(server.address, bucket="models")
        release = place(store, {"w/a.safetensors": WEIGHTS})
        keep = Incoming.keep
        calls = []

        def dying(file: Incoming, number: int) -> None:
            keep(file, number)
            calls.append(number)
            if len(calls) == 5:
                os.kill(server.pid, 9)

        monkeypatch.setattr(Incoming, "keep", dying)
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(pull, store, release.served, tmp_path / "pulled")
            wait_until(lambda: len(calls) >= 5)
            again = s3_server(tmp_path / "s3", port=port, access_key=ACCESS_KEY, secret_key=SECRET_KEY)
            stop(tmp_path / "s3")
            with running(again):
                job.result(timeout=60)
    assert scan_tree(tmp_path / "pulled").digest == release.served.tree_digest


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
