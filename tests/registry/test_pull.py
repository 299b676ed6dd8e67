"""Downloads: the folder appears whole and verified, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelctl.errors import InputError, ModelctlError, RefusedError
from modelctl.model.s3_client import BLOCK_BYTES
from modelctl.model.s3_faults import StoreUnavailableError
from modelctl.model.tree import scan_tree
from modelctl.registry.manifest import manifest_key
from modelctl.registry.publish import Published
from modelctl.registry.pull import pull
from modelctl.registry.records import load_record
from modelctl.registry.store import ObjectStore
from tests.support.publication import Proposal, propose

pytestmark = pytest.mark.services
WEIGHTS = os.urandom(3 * BLOCK_BYTES + 77)


@pytest.fixture
def proposal(tmp_path: Path) -> Proposal:
    return propose(tmp_path / "repository", files={"config.json": b"{}\n", "w/a.safetensors": WEIGHTS, "w/empty": b""})


@pytest.fixture
def published(proposal: Proposal, store: ObjectStore) -> Published:
    return proposal.publish(store)


def overwrite(store: ObjectStore, key: str, content: bytes) -> None:
    store.remove(key)
    store.put_if_absent(key, content)


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_the_folder_is_the_release(published: Published, store: ObjectStore, tmp_path: Path) -> None:
    served = pull(store, "tiny", "1.0.0", tmp_path / "a" / "b")
    assert served == published.served
    assert scan_tree(tmp_path / "a" / "b").digest == published.served.tree_digest
    assert leftovers(tmp_path / "a") == []
    pull(store, "tiny", "1.0.0", tmp_path / "a" / "b")
    (tmp_path / "empty").mkdir()
    pull(store, "tiny", "1.0.0", tmp_path / "empty")


def test_changed_bytes_in_the_bucket_are_refused(published: Published, store: ObjectStore, tmp_path: Path) -> None:
    flipped = WEIGHTS[:-1] + bytes([WEIGHTS[-1] ^ 1])
    for content in (flipped, WEIGHTS[:-5], WEIGHTS + b"x" * 10):
        overwrite(store, "tiny/1.0.0/w/a.safetensors", content)
        with pytest.raises(RefusedError, match="is not what was published"):
            pull(store, "tiny", "1.0.0", tmp_path / "pulled")
        assert not (tmp_path / "pulled").exists()
    store.remove("tiny/1.0.0/w/a.safetensors")
    with pytest.raises(RefusedError, match="it is missing"):
        pull(store, "tiny", "1.0.0", tmp_path / "pulled")
    overwrite(store, "tiny/1.0.0/w/a.safetensors", WEIGHTS)
    pull(store, "tiny", "1.0.0", tmp_path / "pulled")
    assert leftovers(tmp_path) == []


def test_a_manifest_of_other_bytes_than_the_record_is_refused(
    proposal: Proposal, published: Published, store: ObjectStore, tmp_path: Path
) -> None:
    record = load_record(proposal.root, "tiny", "1.0.0")
    (proposal.root / "model" / "config.json").write_text("[]\n")
    other = proposal.next_version("2.0.0").publish(store)
    content = store.read(manifest_key("tiny", "2.0.0"))
    assert content is not None
    assert other.served.tree_digest != published.served.tree_digest
    overwrite(store, manifest_key("tiny", "1.0.0"), content.replace(b'"2.0.0"', b'"1.0.0"'))
    with pytest.raises(RefusedError, match="the record in git"):
        pull(store, "tiny", "1.0.0", tmp_path / "pulled", record=record)
    assert not (tmp_path / "pulled").exists()


def test_a_broken_connection_goes_on_in_the_middle_of_the_file(
    published: Published, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = store.stream
    offsets: list[int] = []

    def breaking(key: str, *, offset: int = 0) -> Iterator[bytes]:
        offsets.append(offset)
        for number, block in enumerate(stream(key, offset=offset)):
            if number == 1 and key.endswith("a.safetensors"):
                raise StoreUnavailableError("the connection broke")
            yield block

    monkeypatch.setattr(store, "stream", breaking)
    pull(store, "tiny", "1.0.0", tmp_path / "pulled")
    assert [offset // BLOCK_BYTES for offset in offsets if offset] == [1, 2, 3]
    assert scan_tree(tmp_path / "pulled").digest == published.served.tree_digest


def test_an_interrupted_download_is_resumed(
    published: Published, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = store.stream

    def interrupted(key: str, *, offset: int = 0) -> Iterator[bytes]:
        yield next(stream(key, offset=offset))
        if key.endswith("a.safetensors"):
            raise KeyboardInterrupt

    monkeypatch.setattr(store, "stream", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pull(store, "tiny", "1.0.0", tmp_path / "pulled")
    assert not (tmp_path / "pulled").exists()
    fetched: list[tuple[str, int]] = []

    def watched(key: str, *, offset: int = 0) -> Iterator[bytes]:
        fetched.append((key, offset))
        return stream(key, offset=offset)

    monkeypatch.setattr(store, "stream", watched)
    pull(store, "tiny", "1.0.0", tmp_path / "pulled")
    assert [item for item in fetched if item[0].startswith("tiny/")] == [("tiny/1.0.0/w/a.safetensors", BLOCK_BYTES)]
    assert scan_tree(tmp_path / "pulled").digest == published.served.tree_digest


def test_leftovers_that_are_wrong_are_fetched_again(published: Published, store: ObjectStore, tmp_path: Path) -> None:
    partial = tmp_path / f".pulled.{published.served.tree_digest[7:19]}.partial"
    (partial / "w").mkdir(parents=True)
    (partial / "w" / "a.safetensors").write_bytes(b"wrong")
    (partial / "config.json").write_bytes(b"longer than it should be")
    (partial / "stranger").write_bytes(b"")
    (partial / "w" / "empty").symlink_to("/etc/hostname")
    pull(store, "tiny", "1.0.0", tmp_path / "pulled")
    assert scan_tree(tmp_path / "pulled").digest == published.served.tree_digest


def test_a_folder_in_use_is_left_alone(published: Published, store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(RefusedError, match=r"extra: thesis\.txt"):
        pull(store, "tiny", "1.0.0", tmp_path / "mine")
    with pytest.raises(InputError, match="a file where a folder is wanted"):
        pull(store, "tiny", "1.0.0", tmp_path / "mine" / "thesis.txt")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_two_downloads_into_one_place_do_not_mix(published: Published, store: ObjectStore, tmp_path: Path) -> None:
    import fcntl

    partial = tmp_path / f".pulled.{published.served.tree_digest[7:19]}.partial"
    partial.mkdir()
    descriptor = os.open(partial, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(ModelctlError, match="another download works"):
            pull(store, "tiny", "1.0.0", tmp_path / "pulled")
    finally:
        os.close(descriptor)


def test_a_full_disk_is_known_before_the_download(
    published: Published, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 1000

    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage)
    with pytest.raises(ModelctlError, match="1000 are free"):
        pull(store, "tiny", "1.0.0", tmp_path / "pulled")


def test_an_unknown_release(published: Published, store: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no manifest there"):
        pull(store, "tiny", "9.0.0", tmp_path / "pulled")
