"""A folder is the release, or every difference is named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from modelctl.errors import InputError, RefusedError
from modelctl.model.tree import FileEntry, Tree
from modelctl.registry.manifest import Served
from modelctl.registry.verify import verify_folder

FILES = {"config.json": b"{}", "w/1": b"abc", "w/empty": b""}


def a_tree() -> Tree:
    entries = [
        FileEntry(path=path, size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        for path, content in FILES.items()
    ]
    return Tree(root=Path(), files=tuple(entries))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, content in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    return tmp_path


SERVED = Served.of(a_tree(), bucket="models", name="tiny", version="1.0.0")


def test_the_release_itself(folder: Path) -> None:
    found = verify_folder(SERVED, folder)
    assert found.whole
    assert found.differences() == ()
    found.refuse_unless_whole("tiny@1.0.0")


def test_every_difference_is_named(folder: Path) -> None:
    (folder / "config.json").write_text("{x")
    (folder / "w" / "1").unlink()
    (folder / ".hidden").write_text("")
    (folder / "link").symlink_to("/etc/hostname")
    found = verify_folder(SERVED, folder)
    assert found.differences()[:3] == ("missing: w/1", "extra: .hidden", "changed: config.json")
    assert found.differences()[3].startswith("link-outside: link ")
    with pytest.raises(RefusedError, match=r"is not tiny@1\.0\.0: missing: w/1; extra: .hidden") as caught:
        found.refuse_unless_whole("tiny@1.0.0")
    assert caught.value.remedy == "modelctl pull tiny@1.0.0 into a new folder"


def test_a_long_list_is_cut_and_says_so(folder: Path) -> None:
    for number in range(15):
        (folder / f"x{number:02}").write_text("")
    with pytest.raises(RefusedError, match="x09; and 5 more"):
        verify_folder(SERVED, folder).refuse_unless_whole("tiny@1.0.0")


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        verify_folder(SERVED, tmp_path / "none")
