"""sha256 of many files: the same on every way through, and a file that cannot be hashed says why."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from modelctl.model import hash_worker, hashing, small_files
from modelctl.model.hash_worker import BLOCK_BYTES
from modelctl.model.hashing import Hashed, NotHashed, hash_file, hash_files

SIZES = (0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES)


def make(folder: Path) -> list[str]:
    for size in SIZES:
        (folder / f"{size}").write_bytes(os.urandom(size))
    (folder / "ä\udcff\n").write_bytes(b"odd name")
    return [str(path) for path in sorted(folder.iterdir())]


def wanted(locations: list[str]) -> list[Hashed]:
    contents = [Path(location).read_bytes() for location in locations]
    return [Hashed(hashlib.sha256(content).hexdigest(), len(content)) for content in contents]


@pytest.mark.parametrize("files_a_process", [1, 100_000])
def test_every_size_in_this_process_and_in_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files_a_process: int
) -> None:
    monkeypatch.setattr(small_files, "FILES_A_PROCESS", files_a_process)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    locations = make(tmp_path)
    told: list[float] = []
    assert hash_files(locations, on_bytes=told.append) == wanted(locations)
    assert sum(told) == sum(SIZES) + len(b"odd name")
    assert [hash_file(Path(location)) for location in locations] == [item.sha256 for item in wanted(locations)]


@pytest.mark.parametrize(
    "program", ["import sys; sys.exit(1)", "print('a line')", "raise SystemExit", "import nothing"]
)
def test_what_a_worker_leaves_undone_is_done_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    (tmp_path / "worker.py").write_text(program)
    monkeypatch.setattr(small_files, "FILES_A_PROCESS", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(hash_worker, "__file__", str(tmp_path / "worker.py"))
    (tmp_path / "model").mkdir()
    locations = make(tmp_path / "model")
    told: list[float] = []
    assert hash_files(locations, on_files=told.append) == wanted(locations)
    assert sum(told) == len(locations)


def test_what_is_no_plain_file_any_more_is_not_followed_into(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "link").symlink_to("secret")
    os.mkfifo(tmp_path / "pipe")
    gone, link, pipe, secret = hash_files([str(tmp_path / name) for name in ("gone", "link", "pipe", "secret")])
    assert isinstance(gone, NotHashed)
    assert "No such file" in gone.detail
    assert isinstance(link, NotHashed)
    assert pipe == Hashed(hashlib.sha256().hexdigest(), 0)
    assert isinstance(secret, Hashed)


def test_holes_are_counted_and_bytes_are_not(tmp_path: Path) -> None:
    for name, head, size in (("full", 5 << 20, 5 << 20), ("holes", 1 << 20, 5 << 20)):
        with (tmp_path / name).open("wb") as stream:
            stream.write(os.urandom(head))
            stream.truncate(size)
    with (tmp_path / "full").open("rb") as full, (tmp_path / "holes").open("rb") as holes:
        assert hashing.hole_bytes(full.fileno(), at_most=1 << 20) == 0
        assert hashing.hole_bytes(holes.fileno(), at_most=1 << 20) == 4 << 20
        assert holes.tell() == 0


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    import tracemalloc

    with (tmp_path / "large").open("wb") as stream:
        stream.truncate(64 << 20)
    tracemalloc.start()
    try:
        hash_files([str(tmp_path / "large")] * 2)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
