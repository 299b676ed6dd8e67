"""What a text or a release's source resolves to; the Hub itself is tested in test_hub.py."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from modelctl.errors import InputError
from modelctl.model.release import Source
from modelctl.model.sources import Snapshot, resolve_source
from modelctl.model.tree import scan_tree
from tests.support.hub import LocalHub
from tests.support.models import tiny_llama

COMMIT = "a" * 40


def resolve(source: str | Source, base: Path) -> Snapshot:
    return resolve_source(source, base=base, store=base / "store")


def cache_snapshot(root: Path, *, shared: bool) -> Path:
    """A Hub cache of the tiny model; with `shared` the repository's blobs are links into the cache's own store."""
    model = tiny_llama(root / "model")
    repository = root / "hub" / "models--acme--tiny"
    snapshot, blobs = repository / "snapshots" / COMMIT, repository / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for path in model.iterdir():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if shared:
            store = root / "hub" / "blobs" / digest[:2]
            store.mkdir(parents=True, exist_ok=True)
            path.rename(store / digest)
            (blobs / digest).symlink_to(os.path.relpath(store / digest, blobs))
        else:
            path.rename(blobs / digest)
        (snapshot / path.name).symlink_to(f"../../blobs/{digest}")
    return snapshot


def test_a_folder_relative_to_the_base(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "model")
    snapshot = resolve("model", tmp_path)
    assert (snapshot.kind, snapshot.description, snapshot.upstream) == ("folder", "folder model", None)
    assert snapshot.tree.digest == scan_tree(tmp_path / "model").digest
    assert resolve(str(tmp_path / "model"), Path("/")).tree.digest == snapshot.tree.digest


def test_a_folder_outranks_a_hub_id_of_the_same_name(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "acme" / "tiny")
    assert resolve("acme/tiny", tmp_path).kind == "folder"


@pytest.mark.parametrize("shared", [False, True])
def test_a_hub_cache_is_read_through_its_links(tmp_path: Path, shared: bool) -> None:
    plain = scan_tree(tiny_llama(tmp_path / "plain"))
    snapshot = resolve(str(cache_snapshot(tmp_path, shared=shared)), tmp_path)
    assert snapshot.tree.problems == ()
    assert snapshot.tree.digest == plain.digest
    assert f"Hub cache of acme/tiny@{COMMIT}" in snapshot.description


def test_links_out_of_an_ordinary_folder_are_problems_even_to_a_folder_named_blobs(tmp_path: Path) -> None:
    snapshot = cache_snapshot(tmp_path, shared=False)
    odd = snapshot.parent.parent.parent / "mine"
    snapshot.parent.parent.rename(odd)
    found = resolve(str(odd / "snapshots" / COMMIT), tmp_path)
    assert {problem.kind for problem in found.tree.problems} == {"link-outside"}


def test_a_hub_cache_link_to_anywhere_else_is_a_problem(tmp_path: Path) -> None:
    snapshot = cache_snapshot(tmp_path, shared=True)
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to(outside)
    found = resolve(str(snapshot), tmp_path)
    assert [(problem.path, problem.kind) for problem in found.tree.problems] == [("config.json", "link-outside")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpt2", "neither a folder on this disk nor a Hub id"),
        ("./nothing/here", "neither a folder"),
        ("https://huggingface.co/acme/tiny", "neither a folder"),
        ("acme/tiny@", "neither a folder"),
        ("", "the base holds no model"),
    ],
)
def test_a_text_that_names_nothing(tmp_path: Path, text: str, words: str) -> None:
    if not text:
        words = "not a model repository"
        (tmp_path / "README.md").write_text("x")
    with pytest.raises(InputError, match=words) as caught:
        resolve(text, tmp_path)
    assert caught.value.remedy


def test_a_near_name_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "smollm2").mkdir()
    with pytest.raises(InputError) as caught:
        resolve("smolm2", tmp_path)
    assert caught.value.remedy == f"did you mean {tmp_path / 'smollm2'}?"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "model")
    with pytest.raises(InputError, match="is a file") as caught:
        resolve("model/config.json", tmp_path)
    assert caught.value.remedy == f"modelctl admit {tmp_path / 'model'}"


def test_an_empty_folder_and_one_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="the folder is empty"):
        resolve("empty", tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.csv").write_text("a,b\n")
    with pytest.raises(InputError, match=r"not a model repository: no config\.json .* it holds train\.csv"):
        resolve("data", tmp_path)


def test_a_release_folder_with_an_upstream_carries_its_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_llama(tmp_path / "model")
    with LocalHub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        commit = hub.push("acme/tiny", {path.name: path.read_bytes() for path in folder.iterdir()})
        source = Source(folder=Path("model"), upstream="acme/tiny", upstream_revision=commit)
        snapshot = resolve(source, tmp_path)
        hub_snapshot = resolve(Source(hub="acme/tiny", revision=commit), tmp_path)
        assert not [line for line in hub.requests[:4] if "/resolve/" in line]
    assert snapshot.upstream is not None
    assert set(snapshot.upstream.files) == set(snapshot.tree.by_path)
    assert hub_snapshot.tree.digest == snapshot.tree.digest
