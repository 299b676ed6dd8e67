"""Quantised models at rest: placed whole, found by their bytes, removed when nobody uses them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from modelctl.accuracy.staging import KEEP_DAYS, kept, place, prune, read_made, sweep
from modelctl.model.tree import scan_tree
from tests.support.progress import Notes


def make(staging: Path, content: str) -> Path:
    ready = staging / ".making-1-x" / "tree"
    ready.mkdir(parents=True)
    (ready / "config.json").write_text(content)
    return place(ready, scan_tree(ready), staging).root


def test_a_model_lies_under_its_digest_and_placing_it_again_changes_nothing(tmp_path: Path) -> None:
    first = make(tmp_path, "{}")
    assert first.name == scan_tree(first).digest.removeprefix("sha256:")
    (tmp_path / ".making-1-x").rmdir()
    assert make(tmp_path, "{}") == first
    (item,) = kept(tmp_path)
    assert (item.folder, item.size_bytes) == (first, 2)


def test_what_no_run_used_for_long_is_removed_and_said(tmp_path: Path) -> None:
    old = make(tmp_path, "old")
    (tmp_path / ".making-1-x").rmdir()
    new = make(tmp_path, "new")
    before = time.time() - (KEEP_DAYS + 1) * 86400
    os.utime(old, (before, before))
    progress = Notes()
    prune(tmp_path, progress)
    assert (old.exists(), new.exists()) == (False, True)
    assert progress.lines[0].startswith("removed a quantised model that was not used for 31 days")
    assert progress.lines[1] == f"{tmp_path} keeps 1 quantised model, 0 MB; one goes 30 days after its last use"


def test_leftovers_of_killed_runs_go_and_those_of_running_ones_stay(tmp_path: Path) -> None:
    dead, mine = tmp_path / ".making-999999999-a", tmp_path / f".making-{os.getpid()}-b"
    dead.mkdir()
    mine.mkdir()
    sweep(tmp_path)
    assert (dead.exists(), mine.exists()) == (False, True)


@pytest.mark.parametrize("content", [None, "{", '{"tree_digest": "sha256:0"}'])
def test_a_record_of_another_version_is_none(tmp_path: Path, content: str | None) -> None:
    record = tmp_path / "record.json"
    if content is not None:
        record.write_text(content)
    assert read_made(record) is None


def test_nothing_is_kept_before_the_first(tmp_path: Path) -> None:
    assert list(kept(tmp_path / "none")) == []
