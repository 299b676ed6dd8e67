"""A served tree that one runner made is published by another: copied in the bucket, after every byte was read there."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from modelctl.errors import RefusedError
from modelctl.model.s3_faults import StoreError
from modelctl.model.tree import Tree, scan_tree
from modelctl.registry import staged, upload
from modelctl.registry.staged import STAGING, read_staged, stage, staged_areas, unstage
from modelctl.registry.store import ObjectStore
from tests.support.bucket import overwrite
from tests.support.publication import Proposal

pytestmark = pytest.mark.services


@pytest.fixture
def served(proposal: Proposal) -> Tree:
    return proposal.tree()


@pytest.fixture(autouse=True)
def few_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights are large: 5000 bytes."""
    monkeypatch.setattr(staged, "SMALL_BYTES", 1000)


def area_of(tree: Tree) -> str:
    return f"{STAGING}{tree.digest.removeprefix('sha256:')}/"


def test_what_is_staged_is_read_and_the_weights_stay_there(
    any_store: ObjectStore, served: Tree, tmp_path: Path
) -> None:
    assert read_staged(any_store, served.digest, tmp_path) is None
    assert stage(any_store, served) == served.size_bytes
    assert stage(any_store, served) == 0
    found = read_staged(any_store, served.digest, tmp_path / "small")
    assert found is not None
    assert found.tree.digest == served.digest
    assert sorted(entry.path for entry in scan_tree(tmp_path / "small").files) == [
        "config.json",
        "extra/größe 1.txt",
        "z",
    ]
    [area] = staged_areas(any_store)
    assert (area.digest, area.size_bytes > served.size_bytes) == (served.digest, True)
    now = datetime.datetime.now(datetime.UTC)
    assert not area.older_than(datetime.timedelta(days=1), now)
    assert area.older_than(datetime.timedelta(days=1), now + datetime.timedelta(days=2))
    unstage(any_store, served.digest)
    unstage(any_store, served.digest)
    assert staged_areas(any_store) == []


def test_a_publication_without_the_weights_copies_them_in_the_bucket(
    any_store: ObjectStore, proposal: Proposal, served: Tree, tmp_path: Path
) -> None:
    stage(any_store, served)
    found = read_staged(any_store, served.digest, tmp_path / "small")
    assert found is not None
    assert not (tmp_path / "small" / "model.safetensors").exists()
    done = proposal.publish(any_store, tree=found.tree, staged=found.sources)
    assert {step.entry.path: step.action for step in done.steps}["model.safetensors"] == "copy"
    assert any_store.read("tiny/1.0.0/model.safetensors") == bytes(5000)
    there = any_store.stat("tiny/1.0.0/model.safetensors")
    assert there is not None
    assert there.sha256 == served.by_path["model.safetensors"].sha256
    assert "copy" in {step.action for step in done.steps}


@pytest.mark.parametrize("kind", ["other bytes", "shorter", "gone", "another list", "no list"])
def test_what_someone_else_put_there_is_refused(
    any_store: ObjectStore, served: Tree, tmp_path: Path, kind: str
) -> None:
    stage(any_store, served)
    weights, listed = f"{area_of(served)}files/model.safetensors", f"{area_of(served)}tree.json"
    sha256 = served.by_path["model.safetensors"].sha256
    match kind:
        case "other bytes":  # with metadata that lies
            overwrite(any_store, weights, b"x" * 5000, sha256=sha256)
        case "shorter":
            overwrite(any_store, weights, b"x", sha256=sha256)
        case "gone":
            any_store.remove(weights)
        case "another list":
            other = Tree(root=served.root, files=served.files[:2])
            stage(any_store, other)
            content = any_store.read(f"{area_of(other)}tree.json")
            assert content is not None
            overwrite(any_store, listed, content)
        case _:
            overwrite(any_store, listed, b'{"schema_version": "1", "files": [{"path": "../x"}]}')
    with pytest.raises(RefusedError, match="is not what was admitted"):
        read_staged(any_store, served.digest, tmp_path / "small")


def test_a_server_that_does_not_copy_is_told_apart_from_a_lost_file(
    any_store: ObjectStore, proposal: Proposal, served: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage(any_store, served)
    found = read_staged(any_store, served.digest, tmp_path / "small")
    assert found is not None
    monkeypatch.setattr(upload, "_copied", lambda *_: False)
    with pytest.raises(StoreError, match=r"model.safetensors is staged in .*, which did not copy it"):
        proposal.publish(any_store, tree=found.tree, staged=found.sources)
    assert any_store.sizes("tiny/") == {}
