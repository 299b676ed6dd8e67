"""A tree lists every byte below a folder, and its digest names exactly those bytes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from modelctl.errors import InputError
from modelctl.model.tree import scan_tree


def folder_of(root: Path, **files: str) -> Path:
    root.mkdir(exist_ok=True)
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_digest_is_what_the_docstring_says(tmp_path: Path) -> None:
    tree = scan_tree(folder_of(tmp_path / "m", b="two", a="one"))
    lines = b"".join(
        name + b"\0" + str(len(text)).encode() + b"\0" + hashlib.sha256(text).hexdigest().encode() + b"\n"
        for name, text in ((b"a", b"one"), (b"b", b"two"))
    )
    assert tree.digest == "sha256:" + hashlib.sha256(lines).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "a").write_text("onf"),
        lambda root: (root / "a").rename(root / "c"),
        lambda root: (root / "extra").write_text(""),
        lambda root: (root / "b").unlink(),
    ],
)
def test_every_change_moves_the_digest(tmp_path: Path, change: object) -> None:
    root = folder_of(tmp_path / "m", a="one", b="two")
    before = scan_tree(root).digest
    change(root)  # type: ignore[operator]
    assert scan_tree(root).digest != before


def test_the_place_does_not_move_the_digest(tmp_path: Path) -> None:
    first = scan_tree(folder_of(tmp_path / "m", a="one", sub__b="two"))
    second = scan_tree(folder_of(tmp_path / "n", sub__b="two", a="one"))
    assert first.digest == second.digest


def test_hidden_files_and_folders_count(tmp_path: Path) -> None:
    root = folder_of(tmp_path / "m", a="one")
    for name in (".git/x.py", ".cache/huggingface/x.py", "__pycache__/x.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    assert {entry.path for entry in scan_tree(root).files} == {
        "a",
        ".git/x.py",
        ".cache/huggingface/x.py",
        "__pycache__/x.py",
    }


def test_what_is_no_plain_file_is_a_problem_not_silence(tmp_path: Path) -> None:
    root = folder_of(tmp_path / "m", a="one", sub__b="two")
    outside = tmp_path / "secret"
    outside.write_text("s")
    (root / "out").symlink_to(outside)
    (root / "gone").symlink_to(root / "nowhere")
    (root / "loop").symlink_to(root / "loop")
    (root / "linked").symlink_to(root / "sub")
    (root / "inside").symlink_to(root / "a")
    (root / "A").write_text("clash")
    (root / "new\nline").write_text("x")
    os.mkfifo(root / "pipe")
    tree = scan_tree(root)
    assert {problem.path: problem.kind for problem in tree.problems} == {
        "out": "link-outside",
        "gone": "broken-link",
        "loop": "broken-link",
        "linked": "special-file",
        "a": "case-clash",
        "pipe": "special-file",
        "new\\nline": "control-characters",
    }
    assert {entry.path for entry in tree.files} == {"a", "A", "inside", "sub/b"}


def test_links_into_a_given_blob_store_are_followed(tmp_path: Path) -> None:
    blobs = folder_of(tmp_path / "blobs", abc="weights")
    shared = folder_of(tmp_path / "shared", deep="deeper")
    (blobs / "hop").symlink_to(shared / "deep")
    snapshot = folder_of(tmp_path / "snapshot")
    (snapshot / "model").symlink_to("../blobs/abc")
    (snapshot / "other").symlink_to("../blobs/hop")
    tree = scan_tree(snapshot, link_roots=[blobs, shared])
    assert [entry.path for entry in tree.files] == ["model", "other"]
    assert tree.problems == ()


def test_no_folder_and_an_empty_folder_are_input_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        scan_tree(tmp_path / "none")
    with pytest.raises(InputError, match="empty"):
        scan_tree(folder_of(tmp_path / "m"))
