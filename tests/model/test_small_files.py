"""Workers begin while files are listed, answer in the list's order, and end with the block whatever happens."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import psutil
import pytest

from modelctl.errors import InputError
from modelctl.model import hash_worker, small_files, walk
from modelctl.model.small_files import SmallFiles
from modelctl.model.tree import scan_tree


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "FILES_A_PROCESS", 3)
    monkeypatch.setattr(small_files, "BATCH", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def workers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if hash_worker.__file__ in child.cmdline()]


def made(folder: Path, count: int) -> list[str]:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{number}\n{'x' * number}").write_bytes(b"%d" % number)
    return [str(path) for path in folder.iterdir()]


def wanted(locations: list[str]) -> list[str]:
    contents = [Path(location).read_bytes() for location in locations]
    return [f"{hashlib.sha256(content).hexdigest()} {len(content)}" for content in contents]


def test_a_list_that_grows_is_answered_in_its_order_and_every_file_is_told_of(tmp_path: Path) -> None:
    every = made(tmp_path / "model", 23)
    told: list[float] = []
    with SmallFiles() as small:
        for some in (1, 2, 7, 8, 22):
            small.offer(every[:some])
        assert len(workers()) == 2
        assert list(small.lines(every, told.append)) == wanted(every)
    assert sum(told) == 23
    assert workers() == []


def test_no_process_is_started_for_few_files_or_on_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SmallFiles() as small:
        few = made(tmp_path / "few", 2)
        assert list(small.lines(few, print)) == wanted(few)
        assert workers() == []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with SmallFiles() as small:
        many = made(tmp_path / "many", 9)
        assert list(small.lines(many, print)) == wanted(many)
        assert workers() == []


def test_workers_end_when_the_listing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for number in range(9):
            (tmp_path / folder / str(number)).touch()
    monkeypatch.setattr(walk, "MAX_FILES", 12)
    with pytest.raises(InputError, match="more than 12 files"):
        scan_tree(tmp_path)
    assert workers() == []


def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    every = made(tmp_path / "model", 40)
    with SmallFiles() as small:
        small.offer(every[:9])
        for worker in workers():
            worker.kill()
            worker.wait()
        assert list(small.lines(every, print)) == wanted(every)
