"""A folder is the release, or every difference is named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from modelctl.model.tree import FileEntry, Tree, scan_tree
from modelctl.registry.manifest import Served
from modelctl.registry.store import ObjectStore
from modelctl.registry.verify import compare
from modelctl.registry.verify_bucket import verify_bucket
from tests.support.bucket import overwrite, place

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


@pytest.mark.services
def test_what_an_object_was_sent_with_is_told_when_it_is_read_too(store: ObjectStore) -> None:
    placed = place(store, {**FILES, "w/2": b"2", "w/3": b"3", "w/4": b"4"})
    overwrite(store, "tiny/1.0.0/w/1", b"abc", sha256="ab" * 32)
    overwrite(store, "tiny/1.0.0/w/2", b"2")
    overwrite(store, "tiny/1.0.0/w/3", b"X", sha256=placed.served.tree.by_path["w/3"].sha256)
    overwrite(store, "tiny/1.0.0/w/4", b"longer", sha256="cd" * 32)
    found = verify_bucket(store, placed.served, full=True)
    assert (found.reannounced, found.unannounced, found.changed) == (("w/1", "w/4"), ("w/2",), ("w/3",))
    assert (found.resized, found.read) == (("w/4",), ("config.json", "w/1", "w/2", "w/3", "w/empty"))
    assert found.differences() == verify_bucket(store, placed.served, sample=99).differences()
