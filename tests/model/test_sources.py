"""What a text or a release's source resolves to; the Hub itself is tested in test_hub.py."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError, InputError, RefusedError
from modelctl.model.release import Source
from modelctl.model.sources import Snapshot, resolve_source
from modelctl.model.tree import scan_tree
from modelctl.progress import SILENT, Progress
from tests.support.hub import LocalHub
from tests.support.models import tiny_llama
from tests.support.progress import Notes

COMMIT = "a" * 40


def resolve(source: str | Source, base: Path, *, progress: Progress = SILENT, upstream: str | None = None) -> Snapshot:
    return resolve_source(source, base=base, store=base / "store", progress=progress, upstream=upstream)


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


def test_a_folder_outranks_a_hub_id_of_the_same_name_and_says_how_to_name_the_other(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "acme" / "tiny")
    notes = Notes()
    assert resolve("acme/tiny", tmp_path, progress=notes).kind == "folder"
    assert "the folder is taken; hub:acme/tiny names the repository at the Hub" in notes.lines[0]
    assert notes.lines[1] == "acme/tiny is understood as folder acme/tiny"
    plain = Notes()
    resolve("./acme/tiny", tmp_path, progress=plain)
    assert len(plain.lines) == 1


def test_a_scheme_asks_the_hub_though_there_is_a_folder(tmp_path: Path, hub: LocalHub) -> None:
    folder = tiny_llama(tmp_path / "acme" / "tiny")
    commit = hub.push("acme/tiny", {path.name: path.read_bytes() for path in folder.iterdir()})
    found = resolve("hub:acme/tiny", tmp_path)
    assert (found.kind, found.commit, found.asked_revision) == ("hub", commit, "main")
    with pytest.raises(InputError, match="names no Hub repository"):
        resolve("hub:tiny", tmp_path)


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


def test_a_folder_is_compared_with_the_official_listing_that_a_person_names(tmp_path: Path, hub: LocalHub) -> None:
    folder = tiny_llama(tmp_path / "model")
    commit = hub.push("acme/tiny", {path.name: path.read_bytes() for path in folder.iterdir()})
    for revision in (commit, "main"):
        found = resolve("model", tmp_path, upstream=f"acme/tiny@{revision}")
        assert found.upstream is not None
        assert found.description == f"folder model, compared with acme/tiny@{commit}"
        assert (found.repo_id, found.asked_revision, found.commit) == ("acme/tiny", revision, commit)
    assert not [line for line in hub.requests if "/resolve/" in line]


def test_what_can_not_be_compared(tmp_path: Path, hub: LocalHub) -> None:
    folder = tiny_llama(tmp_path / "model")
    commit = hub.push("acme/tiny", {path.name: path.read_bytes() for path in folder.iterdir()})
    with pytest.raises(InputError, match="is an official repository itself") as caught:
        resolve("acme/tiny", tmp_path, upstream=f"acme/tiny@{commit}")
    assert "--upstream" in str(caught.value.remedy)
    for text in ("acme/tiny", "acme", "", "acme/tiny@"):
        with pytest.raises(InputError, match="wanted ORG/NAME@COMMIT"):
            resolve("model", tmp_path, upstream=text)
    with pytest.raises(InputError, match="has no revision"):
        resolve("model", tmp_path, upstream=f"acme/tiny@{'b' * 40}")


def test_an_official_listing_that_is_out_of_reach_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_llama(tmp_path / "model")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(CannotDecideError, match="cannot reach"):
        resolve("model", tmp_path, upstream=f"acme/tiny@{COMMIT}")


def test_a_release_file_may_pin_the_digest_of_any_source(tmp_path: Path) -> None:
    digest = scan_tree(tiny_llama(tmp_path / "model")).digest
    assert resolve(Source(folder=Path("model"), digest=digest), tmp_path).tree.digest == digest
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(RefusedError, match=f"the release file pins {digest}") as caught:
        resolve(Source(folder=Path("model"), digest=digest), tmp_path)
    assert caught.value.remedy


def test_a_hub_cache_says_which_repository_it_holds(tmp_path: Path) -> None:
    found = resolve(str(cache_snapshot(tmp_path, shared=False)), tmp_path)
    assert (found.repo_id, found.commit, found.asked_revision) == ("acme/tiny", COMMIT, None)
