"""What must be on the disk before a folder appears."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from modelctl.registry import durable
from modelctl.registry.durable import make_durable, write_out, writing_out


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What was waited for."""
    seen: list[Path] = []
    original = os.fsync

    def noted(descriptor: int) -> None:
        seen.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        original(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return seen


def test_every_file_and_every_folder_is_waited_for(tmp_path: Path, synced: list[Path]) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    files = [tmp_path / "one", tmp_path / "a" / "b" / "two"]
    for path in files:
        path.write_bytes(b"x")
    make_durable(tmp_path, files)
    assert synced[:2] == files
    assert set(synced[2:]) == {tmp_path, tmp_path / "a", tmp_path / "a" / "b"}


def test_many_files_are_waited_for_by_one_call(tmp_path: Path, synced: list[Path]) -> None:
    files = [tmp_path / str(number) for number in range(durable.MANY_FILES)]
    for path in files:
        path.write_bytes(b"x")
    make_durable(tmp_path, files)
    assert synced == []


def test_a_disk_that_fails_is_said_and_a_folder_that_knows_no_such_thing_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x")
    code = [errno.EIO]

    def fails(_descriptor: int) -> None:
        raise OSError(code[0], "the disk failed")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="the disk failed"):
        write_out(path)
    with pytest.raises(OSError, match="the disk failed"):
        write_out(tmp_path)
    code[0] = errno.EINVAL
    write_out(tmp_path)
    with pytest.raises(OSError, match="the disk failed"):
        write_out(path)


def test_a_large_file_is_written_out_while_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[Path]
) -> None:
    monkeypatch.setattr(durable, "EAGER_BYTES", 100)
    path = tmp_path / "f"
    path.write_bytes(b"x")
    with writing_out() as disk:
        for _ in range(5):
            disk.wrote(path, 60)
        for _ in range(6000):
            if synced:
                break
            disk._files.put(tmp_path / "gone")  # what can't be written out now is `make_durable`'s to say
            time.sleep(0.01)
    assert set(synced) == {path}
