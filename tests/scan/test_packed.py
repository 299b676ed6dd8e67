"""Small members of archives are read, large ones passed by, and what can't be read is told."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from modelctl.scan import packed
from modelctl.scan.packed import UnopenedError, small_members


def test_members_of_zip_and_tar(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr("x/y.py", "1")
    for mode in ("w", "w:gz", "w:bz2", "w:xz"):
        with tarfile.open(tmp_path / "a.tar", mode) as made:
            info = tarfile.TarInfo("z.py")
            info.size = 1
            made.addfile(info, io.BytesIO(b"2"))
        assert list(small_members(tmp_path / "a.tar")) == [("z.py", b"2")]
    assert list(small_members(tmp_path / "a.whl")) == [("x/y.py", b"1")]


def test_large_members_are_passed_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MAX_MEMBER_BYTES", 10)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("weights", b"x" * 11)
        archive.writestr("code", b"y")
    assert list(small_members(tmp_path / "a.zip")) == [("code", b"y")]


def test_too_much_is_told_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(4):
            archive.writestr(str(number), b"x" * 10)
    monkeypatch.setattr(packed, "MAX_MEMBERS", 3)
    with pytest.raises(UnopenedError, match="4 members"):
        list(small_members(tmp_path / "a.zip"))
    monkeypatch.setattr(packed, "MAX_TOTAL_BYTES", 15)
    with pytest.raises(UnopenedError, match="more than is read"):
        list(small_members(tmp_path / "a.zip"))


def test_other_files_have_no_members(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"hello\n" * 200)
    (tmp_path / "b").write_bytes(b"")
    assert [*small_members(tmp_path / "a.txt"), *small_members(tmp_path / "b")] == []


def test_a_broken_archive_is_told(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a", b"content")
    (tmp_path / "a.zip").write_bytes(stream.getvalue().replace(b"content", b"CONTENT"))
    with pytest.raises(UnopenedError, match="CRC"):
        list(small_members(tmp_path / "a.zip"))
