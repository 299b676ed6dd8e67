"""An S3 prefix as a source, against two real servers and one that misbehaves."""

from __future__ import annotations

import hashlib
import os
import re
import time
from pathlib import Path

import pytest

from modelctl.errors import CannotDecideError, InputError, RefusedError
from modelctl.model import s3_source
from modelctl.model.release import Source
from modelctl.model.s3_client import BLOCK_BYTES, S3Client
from modelctl.model.s3_faults import StoreError, StoreUnavailableError
from modelctl.model.sources import Snapshot, resolve_source
from modelctl.model.tree import scan_tree
from modelctl.progress import SILENT, Progress
from modelctl.services.process import Running
from tests.support.broken_s3 import Answer, BrokenS3, broken_s3
from tests.support.hub import LocalHub
from tests.support.models import tiny_llama
from tests.support.progress import Notes
from tests.support.s3_servers import a_bucket, a_client, put

XML = "application/xml"


def resolve(
    client: S3Client, source: str | Source, base: Path, *, progress: Progress = SILENT, upstream: str | None = None
) -> Snapshot:
    store = base / "store"
    return resolve_source(source, base=base, store=store, s3=lambda: client, progress=progress, upstream=upstream)


def upload(client: S3Client, bucket: str, folder: Path, prefix: str = "tiny/1.0.0/") -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            put(client, bucket, prefix + path.relative_to(folder).as_posix(), path.read_bytes())


@pytest.fixture(params=["rclone", "moto"])
def client(request: pytest.FixtureRequest) -> S3Client:
    service = request.getfixturevalue(request.param)
    return a_client(service.address if isinstance(service, Running) else service)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tiny_llama(tmp_path / "model", shards=2)
    (folder / "sub").mkdir()
    (folder / "sub" / "größe und mehr.txt").write_text("x")
    (folder / "empty.txt").touch()
    return folder


@pytest.mark.services
class TestARealServer:
    def test_the_bytes_and_what_was_understood(self, client: S3Client, model: Path, tmp_path: Path) -> None:
        bucket = a_bucket(client)
        upload(client, bucket, model)
        notes = Notes()
        found = resolve(client, f"s3://{bucket}/tiny/1.0.0", tmp_path, progress=notes)
        assert found.kind == "s3"
        assert found.description == f"S3 s3://{bucket}/tiny/1.0.0 at {client.endpoint}"
        assert found.tree.digest == scan_tree(model).digest
        assert found.tree.problems == ()
        assert found.upstream is None
        assert found.description in notes.lines[0]
        for entry in found.tree.files:
            assert (tmp_path / "store" / "blobs" / entry.sha256).samefile(found.tree.location(entry.path))
            assert not found.tree.location(entry.path).stat().st_mode & 0o222

    def test_a_second_run_downloads_nothing(
        self, client: S3Client, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bucket = a_bucket(client)
        upload(client, bucket, model)
        first = resolve(client, f"s3://{bucket}/tiny/1.0.0", tmp_path)
        monkeypatch.setattr(S3Client, "stream", None)
        assert resolve(client, f"s3://{bucket}/tiny/1.0.0/", tmp_path).tree == first.tree

    def test_a_blob_that_was_changed_on_disk_is_fetched_again(
        self, client: S3Client, model: Path, tmp_path: Path
    ) -> None:
        bucket = a_bucket(client)
        upload(client, bucket, model)
        first = resolve(client, f"s3://{bucket}/tiny/1.0.0", tmp_path)
        blob = tmp_path / "store" / "blobs" / first.tree.by_path["config.json"].sha256
        blob.chmod(0o644)
        content = blob.read_bytes()
        blob.write_bytes(content.replace(b"{", b"[", 1))
        assert resolve(client, f"s3://{bucket}/tiny/1.0.0", tmp_path).tree.digest == first.tree.digest

    def test_a_changed_object_is_another_snapshot(self, client: S3Client, model: Path, tmp_path: Path) -> None:
        bucket = a_bucket(client)
        upload(client, bucket, model)
        first = resolve(client, f"s3://{bucket}/tiny/1.0.0", tmp_path)
        put(client, bucket, "tiny/1.0.0/config.json", (model / "config.json").read_bytes() + b" ")
        second = resolve(client, f"s3://{bucket}/tiny/1.0.0", tmp_path)
        assert second.tree.digest != first.tree.digest
        assert second.tree.root != first.tree.root

    def test_a_download_goes_on_within_a_file(
        self, client: S3Client, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bucket = a_bucket(client)
        content = os.urandom(5 * BLOCK_BYTES + 77)
        (model / "model-00001-of-00002.safetensors").write_bytes(content)
        upload(client, bucket, model)
        stream, asked = S3Client.stream, []

        def cut(self: S3Client, bucket: str, key: str, *, offset: int = 0, etag: str = "") -> object:
            answer = stream(self, bucket, key, offset=offset, etag=etag)
            if not key.endswith("00001-of-00002.safetensors"):
                return answer
            asked.append(offset)

            class Cut:
                sha256 = None

                def __iter__(self):  # type: ignore[no-untyped-def]
                    for number, block in enumerate(answer):
                        if number == 2:
                            raise KeyboardInterrupt if len(asked) == 1 else StoreUnavailableError("it hung up")
                        yield block

                def interrupt(self) -> None:
                    pass

            return Cut()

        monkeypatch.setattr(S3Client, "stream", cut)
        with pytest.raises(KeyboardInterrupt):
            resolve(client, f"s3://{bucket}/tiny/1.0.0", tmp_path)
        parts = (tmp_path / "store" / "s3").glob("*.part")
        assert max(part.stat().st_size for part in parts) == 2 * BLOCK_BYTES
        found = resolve(client, f"s3://{bucket}/tiny/1.0.0", tmp_path)
        assert found.tree.digest == scan_tree(model).digest
        assert [offset // BLOCK_BYTES for offset in asked] == [0, 2, 4]
        assert not list((tmp_path / "store" / "s3").glob("*.part"))

    def test_what_the_publisher_announced_is_held_against_the_bytes(
        self, client: S3Client, model: Path, tmp_path: Path
    ) -> None:
        bucket = a_bucket(client)
        upload(client, bucket, model)
        content = (model / "config.json").read_bytes()
        right = {"sha256": hashlib.sha256(content).hexdigest()}
        put(client, bucket, "tiny/1.0.0/config.json", content, right)
        resolve(client, f"s3://{bucket}/tiny/1.0.0", tmp_path)
        put(client, bucket, "tiny/1.0.0/config.json", content + b" ", right)
        with pytest.raises(RefusedError, match=f"its publisher announced {right['sha256']}"):
            resolve(client, f"s3://{bucket}/tiny/1.0.0", tmp_path)

    def test_a_prefix_that_is_written_to_meanwhile_decides_nothing(
        self, client: S3Client, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bucket = a_bucket(client)
        upload(client, bucket, model)
        fetch_all = s3_source._fetch_all

        def and_write(*arguments: object) -> dict[str, Path]:
            found = fetch_all(*arguments)  # type: ignore[arg-type]
            put(client, bucket, "tiny/1.0.0/late.txt", b"x")
            return found

        monkeypatch.setattr(s3_source, "_fetch_all", and_write)
        with pytest.raises(CannotDecideError, match="was written to while it was downloaded"):
            resolve(client, f"s3://{bucket}/tiny/1.0.0", tmp_path)

    def test_names_that_are_not_there(self, client: S3Client, model: Path, tmp_path: Path) -> None:
        bucket = a_bucket(client)
        upload(client, bucket, model)
        with pytest.raises(InputError, match="no object") as caught:
            resolve(client, f"s3://{bucket}/tiny/1.0.1", tmp_path)
        assert caught.value.remedy == f"did you mean s3://{bucket}/tiny/1.0.0?"
        for wrong, remedy in (
            ("tinny/1.0.0", f"did you mean s3://{bucket}/tiny?"),
            ("tiny/nothing/like/it", f"s3://{bucket}/tiny holds 1.0.0"),
        ):
            with pytest.raises(InputError, match="no object") as caught:
                resolve(client, f"s3://{bucket}/{wrong}", tmp_path)
            assert caught.value.remedy == remedy
        with pytest.raises(InputError, match="is one object"):
            resolve(client, f"s3://{bucket}/tiny/1.0.0/config.json", tmp_path)
        with pytest.raises(InputError, match="does not exist"):
            resolve(client, "s3://no-such-bucket-here/tiny", tmp_path)
        put(client, bucket, "data/train.csv", b"a,b")
        with pytest.raises(InputError, match=r"not a model repository.*train\.csv"):
            resolve(client, f"s3://{bucket}/data", tmp_path)

    def test_a_mirror_is_compared_with_the_official_listing(
        self, client: S3Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tiny_llama(tmp_path / "model")
        bucket = a_bucket(client)
        upload(client, bucket, folder)
        with LocalHub() as hub:
            monkeypatch.setenv("HF_ENDPOINT", hub.url)
            commit = hub.push("acme/tiny", {path.name: path.read_bytes() for path in folder.iterdir()})
            found = resolve(client, f"s3://{bucket}/tiny/1.0.0", tmp_path, upstream=f"acme/tiny@{commit}")
            source = Source(s3=f"s3://{bucket}/tiny/1.0.0", upstream="acme/tiny", upstream_revision=commit)
            assert resolve(client, source, tmp_path) == found
        assert found.upstream is not None
        assert found.upstream.commit == commit
        assert found.description.endswith(f", compared with acme/tiny@{commit}")
        assert set(found.upstream.files) == set(found.tree.by_path)

    def test_a_release_file_may_pin_the_digest(self, client: S3Client, model: Path, tmp_path: Path) -> None:
        bucket = a_bucket(client)
        upload(client, bucket, model)
        right = scan_tree(model).digest
        assert resolve(client, Source(s3=f"s3://{bucket}/tiny/1.0.0", digest=right), tmp_path).tree.digest == right
        with pytest.raises(RefusedError, match="the release file pins sha256:0000"):
            resolve(client, Source(s3=f"s3://{bucket}/tiny/1.0.0", digest="sha256:" + "0" * 64), tmp_path)


@pytest.mark.services
def test_hostile_keys_are_problems_and_nothing_leaves_the_folder(moto: str, model: Path, tmp_path: Path) -> None:
    client = a_client(moto)
    bucket = a_bucket(client)
    upload(client, bucket, model)
    for key in ("a\\..\\b", "a//b", "sub", "new\x7fline", "CONFIG.json"):
        put(client, bucket, f"tiny/1.0.0/{key}", b"evil")
    put(client, bucket, "tiny/1.0.0/marker/", b"")
    put(client, bucket, "marked/1/", b"")
    with pytest.raises(InputError, match="no object"):
        resolve(client, f"s3://{bucket}/marked/1", tmp_path)
    notes = Notes()
    found = resolve(client, f"s3://{bucket}/tiny/1.0.0", tmp_path, progress=notes)
    kinds = {problem.path: problem.kind for problem in found.tree.problems}
    assert {"a\\\\..\\\\b", "a//b", "new\\x7fline", "sub"} <= kinds.keys()
    assert "case-clash" in kinds.values()
    assert set(found.tree.by_path) == {*scan_tree(model).by_path, "CONFIG.json"}
    assert "1 folder markers" in notes.lines[0]


@pytest.mark.services
def test_an_object_that_moves_after_the_listing_is_not_fetched(moto: str, model: Path, tmp_path: Path) -> None:
    client = a_client(moto)
    bucket = a_bucket(client)
    put(client, bucket, "k", b"one")
    etag = next(client.listing(bucket, "")).etag
    put(client, bucket, "k", b"two")
    with pytest.raises(StoreError, match="no longer the one that was listed") as caught:
        list(client.stream(bucket, "k", etag=etag))
    assert "run the same command again" in str(caught.value.remedy)


def of(server: BrokenS3) -> S3Client:
    return S3Client(endpoint=server.url, access_key="a", secret_key="b", region="us-east-1")


def listing(*objects: tuple[str, int, str]) -> Answer:
    items = "".join(
        f"<Contents><Key>{key}</Key><Size>{size}</Size><ETag>{etag}</ETag></Contents>" for key, size, etag in objects
    )
    text = f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>models</Name>{items}</ListBucketResult>'
    return 200, XML, text.encode()


@pytest.mark.parametrize(
    ("claimed", "sent", "words"),
    [(5, b"123", "3 bytes came, 5 were listed"), (2, b"12345", "more than 2 bytes came"), (1 << 50, b"x", "GB free")],
)
def test_a_size_that_is_not_the_listed_one(tmp_path: Path, claimed: int, sent: bytes, words: str) -> None:
    def answer(_method: str, path: str, _headers: dict[str, str]) -> Answer:
        if "list-type" in path:
            return listing(("m/config.json", claimed, "e"))
        return 200, "binary/octet-stream", sent

    with broken_s3(answer) as server, pytest.raises(CannotDecideError, match=words) as caught:
        resolve(of(server), "s3://models/m", tmp_path)
    assert caught.value.remedy
    assert not list((tmp_path / "store" / "blobs").iterdir())


def test_keys_with_dots_from_a_listing_are_never_asked_for(tmp_path: Path) -> None:
    def answer(_method: str, path: str, _headers: dict[str, str]) -> Answer:
        if "list-type" in path:
            return listing(("m/config.json", 2, "e"), ("m/../../etc/cron.d/evil", 2, "e"), ("m//x", 2, "e"))
        return 200, "binary/octet-stream", b"{}"

    with broken_s3(answer) as server:
        found = resolve(of(server), "s3://models/m", tmp_path)
        asked = [path for _, path, _ in server.requests if "list-type" not in path]
    assert asked == ["/models/m/config.json"]
    assert [problem.kind for problem in found.tree.problems] == ["unsafe-key", "unsafe-key"]
    assert list(found.tree.by_path) == ["config.json"]


def test_a_server_that_falls_silent_is_left_when_another_object_fails(tmp_path: Path) -> None:
    def answer(_method: str, path: str, _headers: dict[str, str]) -> Answer | None:
        if "list-type" in path:
            return listing(("m/config.json", 2, "a"), ("m/model.safetensors", 9, "b"))
        if path.endswith("config.json"):
            while not any(item[1].endswith("model.safetensors") for item in server.requests):
                time.sleep(0.01)
            time.sleep(0.1)
            return 403, XML, b"<Error><Code>AccessDenied</Code></Error>"
        return 200, "binary/octet-stream", b"12345"

    began = time.monotonic()
    with broken_s3(answer) as server:
        server.withheld["/models/m/model.safetensors"] = 4
        with pytest.raises(StoreError, match="refused the access key"):
            resolve(of(server), "s3://models/m", tmp_path)
    assert time.monotonic() - began < 20


def test_another_run_on_the_same_object_is_said(tmp_path: Path) -> None:
    part = tmp_path / "some.part"
    with s3_source._alone(part), pytest.raises(CannotDecideError, match="another run"), s3_source._alone(part):
        pass


def test_a_server_that_ignores_ranges_is_found_out() -> None:
    with broken_s3(lambda *_: (200, "binary/octet-stream", b"12345")) as server:
        assert list(of(server).stream("models", "k")) == [b"12345"]
        with pytest.raises(StoreError, match="asked for the bytes from 3 on, and got all of them"):
            list(of(server).stream("models", "k", offset=3))


def test_no_object_store_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no object store is set") as caught:
        resolve_source("s3://models/tiny", base=tmp_path, store=tmp_path / "store")
    assert re.search("MODELCTL_STORE_ENDPOINT", str(caught.value.remedy))
