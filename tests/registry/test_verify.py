"""A folder is the release, or every difference is named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from modelctl.model.tree import FileEntry, Tree, scan_tree
from modelctl.registry.manifest import Served
from modelctl.registry.verify import compare

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
    found = compare(SERVED, scan_tree(folder))
    assert found.whole
    assert found.differences() == ()


def test_every_difference_is_named(folder: Path) -> None:
    (folder / "config.json").write_text("{x")
    (folder / "w" / "1").unlink()
    (folder / ".hidden").write_text("")
    (folder / "link").symlink_to("/etc/hostname")
    found = compare(SERVED, scan_tree(folder))
    assert found.differences()[:3] == ("missing: w/1", "extra: .hidden", "changed: config.json")
    assert found.differences()[3].startswith("link-outside: link ")
