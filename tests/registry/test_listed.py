"""The list that an admission keeps saves a pass over the bytes, and is worth nothing against the bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from modelctl.errors import RefusedError
from modelctl.model.tree import Tree, scan_tree
from modelctl.registry.listed import keep_list, list_path, refuse_other_bytes, scan_by_list

FILES = {"config.json": b"{}\n", "a/größe 1.txt": b"", "model.safetensors": b"\0" * 5000}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    for path, content in FILES.items():
        target = tmp_path / "model" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return tmp_path / "model"


@pytest.fixture
def report(model: Path, tmp_path: Path) -> Path:
    """The name of a report, with the list of the model's files beside it."""
    keep_list(tmp_path / "report.json", scan_tree(model))
    return tmp_path / "report.json"


def looked_at(report: Path, model: Path, digest: str | None = None) -> Tree:
    return scan_by_list(report, digest or scan_tree(model).digest)(model)


def test_a_folder_that_looks_as_listed_is_not_read(report: Path, model: Path) -> None:
    tree = looked_at(report, model)
    assert not tree.hashed
    assert (tree.root, tree.files) == (model.resolve(), scan_tree(model).files)
    refuse_other_bytes(tree, tree.files)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: (model / "more").write_bytes(b""),
        lambda model: (model / "config.json").unlink(),
        lambda model: (model / "config.json").write_bytes(b"{} \n"),
        lambda model: (model / "a/größe 1.txt").rename(model / "a/b"),
        lambda model: (model / "link").symlink_to("/etc/hostname"),
    ],
)
def test_a_folder_that_looks_otherwise_is_hashed(report: Path, model: Path, change: Callable[[Path], object]) -> None:
    admitted = scan_tree(model).digest
    change(model)
    tree = looked_at(report, model, admitted)
    assert tree.hashed
    assert tree == scan_tree(model)


def test_other_bytes_of_the_same_size_are_refused_by_name(report: Path, model: Path) -> None:
    tree = looked_at(report, model)
    (model / "config.json").write_bytes(b"[]\n")
    with pytest.raises(RefusedError, match=r"config\.json: not the bytes that were admitted") as caught:
        refuse_other_bytes(tree, tree.files)
    assert "admit the release again" in str(caught.value.remedy)
    (model / "config.json").unlink()
    with pytest.raises(RefusedError, match="No such file"):
        refuse_other_bytes(tree, tree.files)


@pytest.mark.parametrize("list_text", [None, "{", "[]", '{"schema_version": "1", "files": []}'])
def test_a_list_that_is_none_costs_a_pass(report: Path, model: Path, list_text: str | None) -> None:
    if list_text is None:
        list_path(report).unlink()
    else:
        list_path(report).write_text(list_text)
    assert looked_at(report, model).hashed


def test_a_list_that_the_report_does_not_prove_is_not_believed(report: Path, model: Path) -> None:
    body = json.loads(list_path(report).read_text())
    body["files"][0]["sha256"] = "0" * 64
    list_path(report).write_text(json.dumps(body))
    assert looked_at(report, model).hashed


def test_an_admission_without_a_served_tree_leaves_no_list(report: Path, model: Path) -> None:
    keep_list(report, None)
    assert not list_path(report).exists()
    keep_list(report, scan_tree(model))
    (model / "link").symlink_to("nowhere")
    keep_list(report, scan_tree(model))
    assert not list_path(report).exists()
