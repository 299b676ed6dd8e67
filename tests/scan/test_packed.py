"""Small members of archives are read at any depth, large ones named, and what can't be read is told."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from modelctl.scan import packed
from modelctl.scan.packed import MAX_DEPTH, Found, small_members
from tests.scan.test_containers import tarred, zipped


def read(folder: Path, content: bytes) -> tuple[list[Found], list[str]]:
    """The members of a file, and what is told of it."""
    path, told = folder / "a.bin", []
    path.write_bytes(content)
    found = list(small_members(path, scratch=folder, unread=told.append))
    return found, told


def test_members_of_zip_and_tar(tmp_path: Path) -> None:
    assert read(tmp_path, zipped({"x/y.py": b"1"})) == ([("x/y.py", b"1")], [])
    for mode in ("w", "w:gz", "w:bz2", "w:xz"):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode=mode) as made:
            info = tarfile.TarInfo("z.py")
            info.size = 1
            made.addfile(info, io.BytesIO(b"2"))
        found, told = read(tmp_path, stream.getvalue())
        assert found[-1] == ("z.py" if mode == "w" else "content!z.py", b"2")
        assert not told


def test_archives_inside_archives_are_looked_into(tmp_path: Path) -> None:
    content = zipped({"b.tar.gz": gzip.compress(tarred({"c.whl": zipped({"d.py": b"1"})}))})
    assert ("b.tar.gz!content!c.whl!d.py", b"1") in read(tmp_path, content)[0]
    for _ in range(MAX_DEPTH):
        content = zipped({"a": content}, method=zipfile.ZIP_STORED)
    assert "nested more than 5 deep" in read(tmp_path, content)[1][0]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_large_members_come_without_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: int) -> None:
    monkeypatch.setattr(packed, "MAX_MEMBER_BYTES", 10)
    found, told = read(tmp_path, zipped({"weights": b"x" * 11, "code": b"y"}, method=method))
    assert (found, told) == ([("weights", None), ("code", b"y")], [])
    assert read(tmp_path, gzip.compress(b"x" * 11)) == ([("content", None)], [])
    assert read(tmp_path, gzip.compress(tarred({"a": b"1"}))) == ([("content!a", b"1")], [])


def test_too_much_is_told_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = zipped({str(number): b"x" * 10 for number in range(4)})
    with monkeypatch.context() as patch:
        patch.setattr(packed, "MAX_MEMBERS", 3)
        assert "over 3 members" in read(tmp_path, content)[1][0]
    monkeypatch.setattr(packed, "MAX_TOTAL_BYTES", 15)
    found, told = read(tmp_path, content)
    assert found == [("0", b"x" * 10)]
    assert "15 bytes" in told[0]


def test_other_files_have_no_members(tmp_path: Path) -> None:
    assert read(tmp_path, b"hello\n" * 200) == ([], [])
    assert read(tmp_path, b"") == ([], [])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (zipped({"a": b"content"}, method=zipfile.ZIP_STORED).replace(b"content", b"CONTENT"), "a: its 7 bytes"),
        (gzip.compress(b"content" * 99, mtime=0)[:-20], "content: broken data"),
        (b"7z\xbc\xaf\x27\x1c" + bytes(99), "a 7z archive, which is not opened here"),
    ],
)
def test_what_can_not_be_read_is_told(tmp_path: Path, content: bytes, words: str) -> None:
    assert read(tmp_path, content)[1][0].startswith(words)
