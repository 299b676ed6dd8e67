"""A folder as a list of hashed files: nothing ignored, nothing from outside, one digest for the same bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelctl.errors import InputError
from modelctl.model.tree import FileEntry, Tree, scan_tree
from modelctl.progress import Unit
from tests.support.models import tiny_llama


def files(root: Path, **contents: str) -> Path:
    for name, content in contents.items():
        (root / name).write_text(content)
    return root


def test_the_digest_of_a_known_folder_never_changes(tmp_path: Path) -> None:
    """The figure is part of published records: a change of it is a change of format."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "sub" / "ä.bin").write_bytes(b"\0\1")
    listing = b"".join(
        path + b"\0%d\0" % len(content) + hashlib.sha256(content).hexdigest().encode() + b"\n"
        for path, content in ((b"config.json", b"{}"), ("sub/ä.bin".encode(), b"\0\1"))
    )
    assert scan_tree(tmp_path).digest == "sha256:" + hashlib.sha256(listing).hexdigest()
    assert scan_tree(tmp_path).digest == "sha256:f25f159e93dbfcc5fdafc6e5729ada3cb990ff1408464ab8c2f855d71d3db1a7"


def test_hidden_files_and_folders_count(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    (tmp_path / ".hidden").write_text("x")
    assert [entry.path for entry in scan_tree(tmp_path).files] == [".git/config", ".hidden"]


def test_the_digest_depends_on_path_and_bytes_only(tmp_path: Path) -> None:
    one, two = tiny_llama(tmp_path / "one"), tiny_llama(tmp_path / "two")
    os.utime(two / "config.json", (1, 1))
    (two / "config.json").chmod(0o600)
    assert scan_tree(one).digest == scan_tree(two).digest
    (two / "config.json").rename(two / "Config.json")
    assert scan_tree(one).digest != scan_tree(two).digest


def test_links_inside_are_followed(tmp_path: Path) -> None:
    files(tmp_path, real="x")
    (tmp_path / "link").symlink_to("real")
    tree = scan_tree(tmp_path)
    assert [entry.path for entry in tree.files] == ["link", "real"]
    assert tree.problems == ()


def _outside(root: Path) -> None:
    (root / "bad").symlink_to("/etc/hostname" if Path("/etc/hostname").exists() else "/etc/passwd")


def _parent(root: Path) -> None:
    (root.parent / "secret").write_text("x")
    (root / "bad").symlink_to("../secret")


def _two_hops(root: Path) -> None:
    (root.parent / "secret").write_text("x")
    (root / "hop").symlink_to("../secret")
    (root / "bad").symlink_to("hop")


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (_outside, "link-outside"),
        (_parent, "link-outside"),
        (_two_hops, "link-outside"),
        (lambda root: (root / "bad").symlink_to("nothing"), "broken-link"),
        (lambda root: (root / "bad").symlink_to("bad"), "broken-link"),
        (lambda root: os.mkfifo(root / "bad"), "special-file"),
        (lambda root: (root / "bad").symlink_to("."), "special-file"),
    ],
)
def test_whatever_is_no_plain_file_is_a_problem(tmp_path: Path, make: Callable[[Path], object], kind: str) -> None:
    root = tmp_path / "model"
    root.mkdir()
    files(root, good="x")
    make(root)
    tree = scan_tree(root)
    assert ("bad", kind) in [(problem.path, problem.kind) for problem in tree.problems]
    assert "bad" not in tree.by_path


def test_links_may_lead_into_the_named_folders_only(tmp_path: Path) -> None:
    root, blobs, other = tmp_path / "model", tmp_path / "blobs", tmp_path / "blobs2"
    for folder in (root, blobs, other):
        folder.mkdir()
        files(folder, file="x")
    (root / "good").symlink_to("../blobs/file")
    (root / "bad").symlink_to("../blobs2/file")
    tree = scan_tree(root, link_roots=[blobs])
    assert [entry.path for entry in tree.files] == ["file", "good"]
    assert [problem.path for problem in tree.problems] == ["bad"]


@pytest.mark.parametrize("name", [b"a\nb", b"a\x1bb", b"a\x7f", b"\xff"])
def test_names_that_cannot_be_shown_are_problems(tmp_path: Path, name: bytes) -> None:
    files(tmp_path, good="x")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("x")
    tree = scan_tree(tmp_path)
    assert [problem.kind for problem in tree.problems] == ["control-characters"]
    assert tree.problems[0].path.isprintable()


def test_names_that_differ_only_in_case(tmp_path: Path) -> None:
    files(tmp_path, config="x", Config="y")
    if len(list(tmp_path.iterdir())) == 2:
        assert [problem.kind for problem in scan_tree(tmp_path).problems] == ["case-clash"]


def test_a_missing_an_empty_and_a_huge_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="not a folder"):
        scan_tree(tmp_path / "none")
    with pytest.raises(InputError, match="empty"):
        scan_tree(tmp_path)
    monkeypatch.setattr("modelctl.model.walk.MAX_FILES", 2)
    files(tmp_path, a="x", b="x", c="x")
    with pytest.raises(InputError, match="more than 2 files"):
        scan_tree(tmp_path)


def test_only_listed_files_have_a_location(tmp_path: Path) -> None:
    tree = scan_tree(files(tmp_path, a="x"))
    assert tree.location("a").read_text() == "x"
    with pytest.raises(KeyError):
        tree.location("../a")


@pytest.mark.parametrize("name", ["a\u202eb", "a\u2028b", "a\x85b"])
def test_names_that_show_as_something_else_are_problems(tmp_path: Path, name: str) -> None:
    files(tmp_path, **{name: "x"})
    assert [problem.kind for problem in scan_tree(tmp_path).problems] == ["control-characters"]


def test_names_in_any_script_are_no_problem(tmp_path: Path) -> None:
    files(tmp_path, **{"größe": "x", "模型": "x", "a b": "x", "👩\u200d🔬": "x"})
    assert scan_tree(tmp_path).problems == ()


@pytest.mark.parametrize(("one", "two"), [("Ä", "ä"), ("\u00e4", "a\u0308"), ("A/x", "a"), ("d/B", "d/b")])
def test_names_that_one_file_system_holds_to_be_the_same(tmp_path: Path, one: str, two: str) -> None:
    for name in (one, two):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    if len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2:
        assert [problem.kind for problem in scan_tree(tmp_path).problems] == ["case-clash"]


def test_a_folder_that_cannot_be_listed_is_a_problem(tmp_path: Path) -> None:
    """Deeper than a path may be long: what lies below must not be left out in silence."""
    files(tmp_path, good="x")
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(17):
        os.mkdir("d" * 250, dir_fd=here)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("hidden", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    tree = scan_tree(tmp_path)
    assert [entry.path for entry in tree.files] == ["good"]
    assert [problem.kind for problem in tree.problems] == ["unreadable"]


def test_a_sparse_giant_is_a_problem_and_is_not_read(tmp_path: Path) -> None:
    files(tmp_path, good="x")
    with (tmp_path / "model.safetensors").open("wb") as stream:
        stream.write(b"x" * 100)
        stream.truncate(1 << 42)
    tree = scan_tree(tmp_path)
    assert [(problem.path, problem.kind) for problem in tree.problems] == [("model.safetensors", "sparse-giant")]


def test_more_folders_than_a_repository_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelctl.model.walk.MAX_FILES", 2)
    for name in "abc":
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="more than 2 files"):
        scan_tree(tmp_path)


class Told:
    """Progress that adds up what it is told."""

    def __init__(self) -> None:
        self.total: float | None = None
        self.unit = ""
        self.done = 0.0

    @contextmanager
    def task(self, label: str, *, total: float | None, unit: Unit) -> Iterator[Told]:
        self.total, self.unit = total, unit
        yield self

    def advance(self, amount: float = 1) -> None:
        self.done += amount

    def describe(self, detail: str) -> None:
        pass

    def note(self, message: str) -> None:
        pass


@pytest.mark.parametrize("many", [2, 4096])
def test_progress_comes_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr("modelctl.model.tree.MANY_FILES", many)
    files(tmp_path, a="x", b="y", large="x" * 3_000_000)
    told = Told()
    scan_tree(tmp_path, progress=told)
    assert (told.unit, told.total, told.done) == (("files", 3, 3) if many == 2 else ("bytes", 3_000_002, 3_000_002))


def entry(path: str, size: int, sha256: str) -> FileEntry:
    return FileEntry(path=path, size_bytes=size, sha256=sha256)


names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5)
entries = st.builds(entry, names, st.integers(0, 1 << 50), st.sampled_from(["a" * 64, "b" * 64]))
lists = st.lists(entries, max_size=4, unique_by=lambda item: item.path)


@given(lists, lists)
def test_two_lists_have_one_digest_only_when_they_are_equal(one: list[FileEntry], two: list[FileEntry]) -> None:
    first = Tree(root=Path(), files=tuple(one)).digest
    second = Tree(root=Path(), files=tuple(two)).digest
    assert (first == second) == (sorted(one, key=str) == sorted(two, key=str))
    assert Tree(root=Path(), files=tuple(reversed(one))).digest == first


def test_names_that_are_no_utf8_sort_by_their_bytes(tmp_path: Path) -> None:
    odd, plain = "\udcff", "\uffff"  # as code points the first is smaller, as bytes (ff and ef bf bf) the larger
    files = tuple(FileEntry(path=path, size_bytes=1, sha256="a" * 64) for path in (odd, plain))
    lines = b"".join(os.fsencode(path) + b"\x001\x00" + b"a" * 64 + b"\n" for path in (plain, odd))
    assert Tree(root=tmp_path, files=files).digest == "sha256:" + hashlib.sha256(lines).hexdigest()
