"""`modelctl gc` on a real repository and a real bucket: a dry run by default, and nothing that is served ever goes."""

from __future__ import annotations

import datetime
import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from modelctl.model.tree import scan_tree
from modelctl.registry import removal
from modelctl.registry.manifest import attestation_key, manifest_key
from modelctl.registry.staged import stage
from modelctl.registry.store import ObjectStore
from modelctl.services.process import Running
from tests.registry.conftest import a_store
from tests.support.bucket import overwrite, place
from tests.support.command import modelctl
from tests.support.history import Registry, a_long_registry
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

pytestmark = pytest.mark.services


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return a_long_registry(tmp_path / "registry", minors=3, promoted=2)


@pytest.fixture
def store(rclone: Running, registry: Registry) -> ObjectStore:
    store = a_store(rclone.address)
    for version, content in (("1.0.0", b"weights"), ("1.1.0", b"1"), ("1.2.0", b"2"), ("1.3.0", b"3")):
        place(store, {"model.safetensors": content}, version=version, key=registry.root / "key")
    return store


def gc(registry: Registry, store: ObjectStore, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {
        "MODELCTL_STORE_ENDPOINT": store.server.endpoint,
        "MODELCTL_STORE_BUCKET": store.bucket,
        "MODELCTL_STORE_ACCESS_KEY": ACCESS_KEY,
        "MODELCTL_STORE_SECRET_KEY": SECRET_KEY,
    }
    options = ("--keep-last", "1", "--older-than", "0")
    return modelctl("gc", *options, *arguments, cwd=registry.root, env=env)


def test_a_dry_run_writes_nothing(registry: Registry, store: ObjectStore) -> None:
    before, head = store.sizes(""), registry.git.head()
    done = gc(registry, store)
    assert done.returncode == 0, done.stderr
    assert "may go  tiny@1.0.0" in done.stdout
    assert "kept     tiny@1.2.0  served: prod may go back to it (main)" in done.stdout
    assert "with --yes" in done.stdout
    assert (store.sizes(""), registry.git.head()) == (before, head)


def test_what_nothing_keeps_goes_and_the_rest_stays(registry: Registry, store: ObjectStore) -> None:
    for version, content in (("1.0.0", b"weights"), ("1.3.0", b"3")):
        hint = f".modelctl/contents/{hashlib.sha256(content).hexdigest()}"
        overwrite(store, hint, f"tiny/{version}/model.safetensors".encode())
    body = json.loads(gc(registry, store, "--yes", "--json", "--reason", "disk").stdout)
    assert [item["release"] for item in body["releases"] if item["goes"]] == ["tiny@1.0.0", "tiny@1.1.0"]
    assert len(body["commits"]) == 2
    assert list(store.sizes(".modelctl/contents/")) == [hint]
    assert sorted(store.sizes("").keys() - {hint}) == sorted(
        key
        for version in ("1.2.0", "1.3.0")
        for key in (
            f"tiny/{version}/model.safetensors", manifest_key("tiny", version), attestation_key("tiny", version),
        )
    )  # fmt: skip
    assert modelctl("audit", "--verify", cwd=registry.root).returncode == 0
    pulled = modelctl("pull", "tiny@1.0.0", "x", cwd=registry.root)
    assert (pulled.returncode, "was retired at" in pulled.stderr) == (2, True)
    again = json.loads(gc(registry, store, "--yes", "--json").stdout)
    assert (again["commits"], again["left_behind"]) == ([], [])


def test_what_was_staged_and_never_published_goes_when_it_is_old(
    registry: Registry, store: ObjectStore, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "model.safetensors").write_bytes(b"quantised")
    tree = scan_tree(tmp_path / "made")
    stage(store, tree)
    assert json.loads(gc(registry, store, "--yes", "--json").stdout)["staged"] == []
    assert "staged by an admission and never published" in gc(registry, store, "--staged-days", "0").stdout
    plan = json.loads(gc(registry, store, "--yes", "--json", "--staged-days", "0").stdout)
    assert [item["served_digest"] for item in plan["staged"]] == [tree.digest]
    assert store.sizes(".modelctl/staging/") == {}


def test_a_name_that_nobody_knows_is_an_error(registry: Registry, store: ObjectStore) -> None:
    done = gc(registry, store, "tinny")
    assert done.returncode == 2
    assert "no release of tinny" in done.stderr
    assert "did you mean tiny?" in done.stderr


def test_an_interrupted_removal_is_finished(registry: Registry, store: ObjectStore) -> None:
    assert gc(registry, store, "--yes").returncode == 0
    overwrite(store, "tiny/1.0.0/model.safetensors", b"weights")  # as if it had been killed before
    plan = json.loads(gc(registry, store, "--json").stdout)
    assert [item["release"] for item in plan["left_behind"]] == ["tiny@1.0.0"]
    assert gc(registry, store, "--yes").returncode == 0
    assert store.sizes("tiny/1.0.0/") == {}


def test_what_this_repository_does_not_know_is_never_touched(registry: Registry, store: ObjectStore) -> None:
    place(store, {"w": b"theirs"}, name="theirs")
    overwrite(store, "building/1.0.0/w", b"a publication at work")
    done = gc(registry, store, "--yes")
    assert "unknown  theirs@1.0.0" in done.stderr
    assert set(store.sizes("theirs/")) == {"theirs/1.0.0/w"}
    assert set(store.sizes("building/")) == {"building/1.0.0/w"}


def test_debris_of_publications_that_nobody_is_at_any_more(store: ObjectStore) -> None:
    overwrite(store, "building/1.0.0/w", b"a publication that was given up")
    now = datetime.datetime.now(datetime.UTC)
    held = removal.held_in(store)["building@1.0.0"]
    assert not held.left_behind(now)
    assert held.left_behind(now + datetime.timedelta(days=8))
    assert not removal.held_in(store)["tiny@1.3.0"].left_behind(now + datetime.timedelta(days=8))


def test_a_branch_that_is_behind_is_not_worked_on(registry: Registry, store: ObjectStore, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    registry.git.run("clone", "--quiet", str(registry.root), str(clone))
    registry.propose(version="2.0.0")
    done = gc(Registry(clone), store, "--yes")
    assert (done.returncode, "commits behind" in done.stderr) == (2, True), done.stderr
