"""Downloads from the Hub: what is believed of the bytes, what survives an interruption, what is tried again."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError, RefusedError
from modelctl.model.download import Store, fetch
from modelctl.model.hub import Hub
from modelctl.model.partial import Part
from modelctl.progress import SILENT, Task, Unit
from tests.support.hub import LocalHub

REPO = "acme/tiny"
WEIGHTS = "model.safetensors"
CONTENT = random.Random(3).randbytes(300_000)
FILES = {"config.json": b'{"model_type": "llama"}\n', WEIGHTS: CONTENT}
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Watched:
    """A progress that keeps what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.details: list[str] = []
        self.done = 0.0
        self.total: float | None = None

    @contextmanager
    def task(self, label: str, *, total: float | None, unit: Unit) -> Iterator[Task]:
        assert (label, unit) == (f"download {REPO}", "bytes")
        self.total = total
        yield self

    def note(self, message: str) -> None:
        self.notes.append(message)

    def advance(self, amount: float = 1) -> None:
        self.done += amount

    def describe(self, detail: str) -> None:
        self.details.append(detail)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(root=tmp_path / "store")


def download(store: Store, progress: Watched | None = None) -> dict[str, bytes]:
    """Fetch `main` and return every file of the snapshot."""
    hub = Hub()
    folder = fetch(hub, hub.listing(REPO, "main"), store, progress or SILENT)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def part(store: Store, content: bytes) -> Path:
    """Leave a part of the weights, as an interrupted run does."""
    path = store.root / "partial" / DIGEST
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def leftovers(store: Store) -> list[str]:
    return [path.name for path in (store.root / "partial").iterdir()]


def test_progress_covers_the_whole_download_and_names_the_file(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    watched = Watched()
    assert download(store, watched) == FILES
    assert watched.done == watched.total == sum(map(len, FILES.values()))
    assert sorted(watched.details) == ["file 1 of 2: config.json", f"file 2 of 2: {WEIGHTS}"]
    assert leftovers(store) == []


def test_a_part_is_continued_where_it_ends(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    part(store, CONTENT[:100_000])
    watched = Watched()
    assert download(store, watched) == FILES
    assert set(hub.asked_ranges) == {"bytes=100000-"}
    assert hub.sent_bytes == sum(map(len, FILES.values())) - 100_000
    assert watched.done == watched.total
    assert leftovers(store) == []


def test_a_whole_part_needs_no_request(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    part(store, CONTENT)
    assert download(store) == FILES
    assert not [line for line in hub.requests if line.endswith(WEIGHTS)]


@pytest.mark.parametrize("found", [b"\0" * 100_000, b"\0" * len(CONTENT), CONTENT + b"x"])
def test_a_damaged_part_is_thrown_away_and_the_file_taken_anew(hub: LocalHub, store: Store, found: bytes) -> None:
    hub.push(REPO, FILES)
    part(store, found)
    watched = Watched()
    assert download(store, watched) == FILES
    assert watched.done == watched.total


def test_a_server_that_ignores_the_range_begins_anew(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    hub.faults.range_ignored = True
    part(store, CONTENT[:100_000])
    watched = Watched()
    assert download(store, watched) == FILES
    assert hub.asked_ranges == ["bytes=100000-"]
    assert watched.done == watched.total


@pytest.mark.parametrize(
    "said",
    [
        f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}",
        f"bytes 99999-{len(CONTENT) - 1}/{len(CONTENT)}",
        f"bytes 100000-{len(CONTENT)}/{len(CONTENT) + 1}",
        f"bytes 100000-{len(CONTENT)}/*",
        "bytes 100000-/*",
        "bytes */300000",
        "nonsense",
    ],
)
def test_a_wrong_content_range_is_not_appended(hub: LocalHub, store: Store, said: str) -> None:
    hub.push(REPO, FILES)
    hub.faults.content_range = said
    part(store, CONTENT[:100_000])
    watched = Watched()
    assert download(store, watched) == FILES
    assert [line.split()[1] for line in hub.requests if "/lfs/" in line] == [hub_path(hub)] * 2
    assert watched.done == watched.total


def hub_path(hub: LocalHub) -> str:
    return f"/{REPO}/lfs/{hub.repositories[REPO].branches['main']}/{WEIGHTS}"


def test_a_range_that_is_refused_begins_anew(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    hub.faults.range_status = 416
    part(store, CONTENT[:100_000])
    assert download(store) == FILES


@pytest.mark.parametrize("status", [204, 206])
def test_an_answer_that_is_not_the_whole_file_is_not_taken_for_it(hub: LocalHub, store: Store, status: int) -> None:
    hub.push(REPO, FILES)
    hub.faults.first_answers["lfs"] = [(status, {"Content-Range": "bytes 0-1/300000"})]
    with pytest.raises(CannotDecideError, match=f"{WEIGHTS}"):
        download(store)


def test_a_transfer_that_breaks_goes_on_from_the_byte_that_arrived(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    hub.faults.cut[WEIGHTS] = 2
    watched = Watched()
    assert download(store, watched) == FILES
    assert hub.asked_ranges == ["bytes=150000-", "bytes=225000-"]
    assert hub.sent_bytes == sum(map(len, FILES.values()))
    assert watched.notes == [f"{WEIGHTS}: the connection broke; asking again in {wait} s" for wait in (0, 0)]


def test_a_transfer_that_always_breaks_decides_nothing_and_keeps_what_came(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    hub.faults.cut[WEIGHTS] = 99
    with pytest.raises(CannotDecideError, match=rf"{WEIGHTS}: 290625 of 300000 bytes .* broke 5 times") as caught:
        download(store)
    assert caught.value.remedy == "run the same command again: it goes on where it stopped"
    assert leftovers(store) == [DIGEST]
    assert not (store.root / "snapshots").exists()
    hub.faults.cut.clear()
    hub.sent_bytes = 0
    assert download(store) == FILES
    assert hub.sent_bytes == 9375


def test_a_steady_transfer_may_break_more_often(hub: LocalHub, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelctl.model.download.STEADY_BYTES", 1)
    hub.push(REPO, FILES)
    hub.faults.cut[WEIGHTS] = 12
    assert download(store) == FILES


def test_a_busy_hub_is_asked_again_in_the_middle_of_a_download(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    hub.faults.first_answers = {WEIGHTS: [(503, {}), (429, {"Retry-After": "0"})], "lfs": [(403, {})]}
    hub.faults.lfs_host = "localhost"
    watched = Watched()
    assert download(store, watched) == FILES
    assert len(watched.notes) == 3
    for note, words in zip(watched.notes, ("503", "status 429", "localhost"), strict=True):
        assert words in note


@pytest.mark.parametrize("name", [WEIGHTS, "config.json"])
@pytest.mark.parametrize("fault", ["flipped", "longer"])
def test_changed_bytes_are_refused_while_they_arrive(hub: LocalHub, store: Store, name: str, fault: str) -> None:
    hub.push(REPO, FILES)
    getattr(hub.faults, fault).add(name)
    with pytest.raises(RefusedError, match=name):
        download(store)
    assert hashlib.sha256(FILES[name]).hexdigest() not in leftovers(store)
    assert not (store.root / "snapshots").exists()


def test_changed_bytes_after_a_continuation_are_taken_anew_once_and_then_refused(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    hub.faults.flipped.add(WEIGHTS)
    part(store, CONTENT[:100_000])
    with pytest.raises(RefusedError, match=WEIGHTS):
        download(store)
    assert len([line for line in hub.requests if "/lfs/" in line]) == 2
    assert leftovers(store) == []


def test_a_file_longer_than_listed_is_not_read_to_its_end(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    hub.faults.longer.add(WEIGHTS)
    hub.faults.missing_headers.add("Content-Length")
    with pytest.raises(RefusedError, match="got more than 300000 bytes"):
        download(store)


def test_an_answer_without_its_usual_headers_is_believed_by_its_hash(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    hub.faults.missing_headers |= {"X-Repo-Commit", "Content-Length"}
    assert download(store) == FILES


def test_an_answer_that_a_proxy_compressed_is_unpacked(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    hub.faults.compressed = set(FILES)
    assert download(store) == FILES


def test_a_compressed_continuation_is_not_appended(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    hub.faults.compressed = {WEIGHTS}
    part(store, CONTENT[:100_000])
    assert download(store) == FILES


def test_bytes_of_another_commit_decide_nothing(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    hub.faults.wrong_commit = True
    with pytest.raises(CannotDecideError, match=f"of commit '{'0' * 40}', asked for that of") as caught:
        download(store)
    assert caught.value.exit_code == 3
    assert "check HF_ENDPOINT" in str(caught.value.remedy)
    assert leftovers(store) == []
    assert list((store.root / "blobs").iterdir()) == []
    hub.faults.wrong_commit = False
    assert download(store) == FILES


def aged(path: Path, days: float) -> Path:
    """A part that nothing was added to for so many days."""
    path.write_bytes(bytes(1_500_000))
    os.utime(path, (time.time() - days * 86_400,) * 2)
    return path


def test_parts_that_nobody_went_on_with_for_a_week_are_removed(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    part(store, CONTENT[:100_000])
    os.utime(store.root / "partial" / DIGEST, (time.time() - 30 * 86_400,) * 2)
    aged(store.root / "partial" / ("a" * 64), 7.1)
    held = aged(store.root / "partial" / ("b" * 64), 30)
    aged(store.root / "partial" / ("c" * 64), 6.9)
    watched = Watched()
    with held.open("ab") as sink:
        fcntl.flock(sink, fcntl.LOCK_EX)
        assert download(store, watched) == FILES
    assert sorted(name[0] for name in leftovers(store)) == ["b", "c"]
    assert watched.notes == ["1.5 MB of downloads that nobody went on with for a week were removed"]
    assert set(hub.asked_ranges) == {"bytes=100000-"}


def test_a_finished_file_is_not_sent_again_and_a_damaged_one_is(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    download(store)
    hub.requests.clear()
    assert download(store) == FILES
    assert not [line for line in hub.requests if "/resolve/" in line]

    blob = store.root / "blobs" / DIGEST
    blob.chmod(0o644)
    blob.write_bytes(CONTENT[:-1] + b"?")
    watched = Watched()
    assert download(store, watched) == FILES
    assert [line.rpartition("/")[2] for line in hub.requests if "/resolve/" in line] == [WEIGHTS]
    assert watched.done == watched.total


def test_a_stray_file_in_the_kept_snapshot_is_removed(hub: LocalHub, store: Store) -> None:
    commit = hub.push(REPO, FILES)
    download(store)
    (store.root / "snapshots" / "acme--tiny" / commit / "json.py").write_text("boom = 1\n")
    assert download(store) == FILES


def test_a_part_that_another_process_holds_is_waited_for(
    hub: LocalHub, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelctl.model.download.LOCK_POLL_S", 0.02)
    hub.push(REPO, FILES)
    path = part(store, CONTENT)
    watched = Watched()
    with path.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        worker = threading.Thread(target=download, args=(store, watched))
        worker.start()
        while not watched.notes:
            assert worker.is_alive()
            time.sleep(0.01)
        path.rename(store.root / "blobs" / DIGEST)
    worker.join(timeout=20)
    assert watched.notes == [f"another process downloads {WEIGHTS}: waiting for it"]
    assert watched.done == watched.total
    assert not [line for line in hub.requests if line.endswith(WEIGHTS)]


def test_two_downloads_of_the_same_model_share_the_work(
    hub: LocalHub, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelctl.model.download.LOCK_POLL_S", 0.02)
    hub.push(REPO, FILES)
    hub.faults.slow[WEIGHTS] = 2e6
    with ThreadPoolExecutor(2) as pool:
        assert [job.result() for job in [pool.submit(download, store) for _ in range(2)]] == [FILES, FILES]
    assert len([line for line in hub.requests if "/lfs/" in line]) == 1
    assert leftovers(store) == []


def test_too_small_a_disk_is_said_before_the_download(
    hub: LocalHub, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.push(REPO, FILES)
    part(store, CONTENT[:100_000])
    free = [200_000 + len(FILES["config.json"])]
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": free[0] - 1})())
    with pytest.raises(CannotDecideError, match=r"to download and .* free") as caught:
        download(store)
    assert "MODELCTL_STATE_DIR" in (caught.value.remedy or "")
    assert not [line for line in hub.requests if "/resolve/" in line]
    free[0] += 1
    assert download(store) == FILES


def test_a_disk_that_fills_up_meanwhile_keeps_the_part(
    hub: LocalHub, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.push(REPO, FILES)
    add = Part.add

    def full(self: Part, block: bytes) -> None:
        if self.received > 100_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        add(self, block)

    monkeypatch.setattr(Part, "add", full)
    with pytest.raises(CannotDecideError, match="No space left") as caught:
        download(store)
    assert "free some space and run the same command again" in (caught.value.remedy or "")
    assert leftovers(store) == [DIGEST]


def child(store: Store) -> subprocess.Popen[bytes]:
    program = (
        "import pathlib, sys; from modelctl.model.download import Store, fetch; from modelctl.model.hub import Hub; "
        "from modelctl.progress import SILENT; hub = Hub(); "
        f"fetch(hub, hub.listing({REPO!r}, 'main'), Store(root=pathlib.Path(sys.argv[1])), SILENT)"
    )
    return subprocess.Popen([sys.executable, "-P", "-c", program, store.root], stderr=subprocess.PIPE)


def wait_for(hub: LocalHub, process: subprocess.Popen[bytes], sent_bytes: int) -> None:
    deadline = time.monotonic() + 60
    while hub.sent_bytes < sent_bytes:
        assert time.monotonic() < deadline, "the child never received so much"
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.005)


def written_by(process: subprocess.Popen[bytes], store: Store, size_bytes: int) -> None:
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size >= size_bytes for path in (store.root / "partial").iterdir()):
        assert time.monotonic() < deadline, "the child never wrote so much"
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_a_download_that_is_killed_again_and_again_is_gone_on_with_and_is_whole(
    hub: LocalHub, store: Store, seed: int
) -> None:
    content = random.Random(seed).randbytes(4_000_000)
    files = {"config.json": b"{}", WEIGHTS: content, "model-b.safetensors": content[::-1]}
    hub.push(REPO, files)
    hub.faults.slow = dict.fromkeys(files, 2e6)
    for point in sorted(random.Random(seed).sample(range(100_000, 6_000_000), 3)):
        process = child(store)
        try:
            wait_for(hub, process, point)
        finally:
            process.kill()
            process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (store.root / "snapshots").exists()
    hub.faults.slow.clear()
    assert download(store) == files
    assert len(hub.asked_ranges) >= 4
    assert hub.sent_bytes < 1.25 * sum(map(len, files.values())), "what had arrived was sent again"
    assert leftovers(store) == []


@pytest.mark.slow
def test_ctrl_c_ends_a_stalled_download_at_once_and_leaves_parts_to_go_on_with(hub: LocalHub, store: Store) -> None:
    hub.push(REPO, FILES)
    hub.faults.stalled = set(FILES)
    process = child(store)
    try:
        wait_for(hub, process, sum(len(content) // 2 for content in FILES.values()))
        written_by(process, store, 100_000)
        time.sleep(1)  # for the rest, which may lie in the child's memory and shows nowhere
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=20)
        assert time.monotonic() - begun < 10
    finally:
        process.kill()
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in words
    assert sorted(path.stat().st_size for path in (store.root / "partial").iterdir()) == [12, 150_000]
    assert not (store.root / "snapshots").exists()
    assert not list((store.root / "blobs").iterdir())
    hub.faults.stalled.clear()
    assert download(store) == FILES
    assert {"bytes=150000-", "bytes=12-"} == set(hub.asked_ranges)
