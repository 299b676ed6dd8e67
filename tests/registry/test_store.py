"""The object store against two real servers: bytes are checked while they move, and every refusal has a remedy."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from modelctl.errors import InputError, RefusedError
from modelctl.model.s3_faults import StoreError, StoreUnavailableError
from modelctl.model.tree import FileEntry
from modelctl.registry.capabilities import probe
from modelctl.registry.sending import PART_BYTES, Sending, send_files
from modelctl.registry.store import ObjectStore
from modelctl.services.process import Running, free_port
from modelctl.services.s3 import keep_credentials, s3_folder
from modelctl.settings import Store
from tests.registry.conftest import a_store
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY


def a_file(folder: Path, content: bytes, name: str = "weights") -> tuple[Path, FileEntry]:
    path = folder / name
    path.write_bytes(content)
    return path, FileEntry(path=name, size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def nothing(_amount: float) -> None:
    pass


@pytest.fixture
def any_store(any_store: ObjectStore) -> ObjectStore:
    """With its bucket."""
    any_store.ensure_bucket()
    any_store.ensure_bucket()
    return any_store


@pytest.mark.services
class TestBytes:
    @pytest.mark.parametrize("size", [0, 1, 5000, 2 * PART_BYTES, 2 * PART_BYTES + 1], ids=str)
    def test_a_file_arrives_with_its_hash(self, any_store: ObjectStore, tmp_path: Path, size: int) -> None:
        content = bytes(range(251)) * (size // 251 + 1)
        path, entry = a_file(tmp_path, content[:size])
        seen: list[float] = []
        send_files(any_store, [Sending(key="m/1.0.0/größe + 1", path=path, entry=entry)], seen.append)
        found = any_store.stat("m/1.0.0/größe + 1")
        assert found is not None
        assert (found.size_bytes, found.sha256, sum(seen)) == (size, entry.sha256, size)
        assert any_store.read("m/1.0.0/größe + 1") == content[:size]
        assert any_store.sizes("m/1.0.0/") == {"m/1.0.0/größe + 1": size}

    @pytest.mark.parametrize(
        ("size", "change"),
        [
            (0, "longer"),
            *((size, change) for size in (5000, 2 * PART_BYTES + 5) for change in ("flipped", "longer", "shorter")),
        ],
    )
    def test_changed_bytes_never_become_an_object(
        self, any_store: ObjectStore, tmp_path: Path, size: int, change: str
    ) -> None:
        path, entry = a_file(tmp_path, b"a" * size)
        if change == "longer":
            path.write_bytes(b"a" * size + b"b")
        else:
            path.write_bytes(b"a" * (size - 1) + (b"b" if change == "flipped" else b""))
        with pytest.raises(RefusedError, match="not the bytes that were admitted"):
            send_files(any_store, [Sending(key="m/weights", path=path, entry=entry)], nothing)
        assert any_store.stat("m/weights") is None
        assert any_store.sizes("m/") == {}

    def test_reading_from_the_middle(self, any_store: ObjectStore, tmp_path: Path) -> None:
        path, entry = a_file(tmp_path, b"0123456789")
        send_files(any_store, [Sending(key="m/weights", path=path, entry=entry)], nothing)
        assert b"".join(any_store.stream("m/weights", offset=7)) == b"789"

    def test_a_copy_on_the_server_keeps_the_hash(self, any_store: ObjectStore, tmp_path: Path) -> None:
        path, entry = a_file(tmp_path, b"0123456789")
        send_files(any_store, [Sending(key="m/1/a b", path=path, entry=entry)], nothing)
        source = any_store.stat("m/1/a b")
        assert source is not None
        any_store.copy(source, "m/2/c", entry.sha256)
        found = any_store.stat("m/2/c")
        assert found is not None
        assert found.sha256 == entry.sha256
        assert any_store.read("m/2/c") == b"0123456789"
        any_store.remove("m/2/c")
        any_store.remove("m/2/c")
        assert any_store.stat("m/2/c") is None

    def test_what_is_not_there_is_none(self, any_store: ObjectStore) -> None:
        assert any_store.stat("m/none") is None
        assert any_store.read("m/none") is None
        assert any_store.sizes("m/") == {}


@pytest.mark.services
class TestOnlyIfAbsent:
    def test_a_server_that_enforces_it_is_found_out(self, strict_store: ObjectStore, store: ObjectStore) -> None:
        for some in (strict_store, store):
            some.ensure_bucket()
        assert probe(strict_store).conditional_writes
        assert probe(strict_store).conditional_writes
        assert not probe(store).conditional_writes

    def test_the_first_writer_wins(self, any_store: ObjectStore) -> None:
        assert any_store.put_if_absent("k", b"first") == b"first"
        assert any_store.put_if_absent("k", b"second") == b"first"
        assert any_store.read("k") == b"first"

    def test_the_condition_decides_a_race(self, strict_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
        strict_store.ensure_bucket()
        rival = a_store(strict_store.place.endpoint, bucket=strict_store.bucket)
        read = strict_store.read

        def lose_the_race(key: str) -> bytes | None:
            found = read(key)
            rival.put_if_absent(key, b"rival")
            return found

        monkeypatch.setattr(strict_store, "read", lose_the_race)
        assert strict_store.put_if_absent("k", b"mine") == b"rival"


@pytest.mark.services
class TestFaults:
    def test_a_wrong_secret_names_the_variables_and_shows_no_secret(self, rclone: Running) -> None:
        with pytest.raises(StoreError) as caught:
            a_store(rclone.address, secret_key="wrong-secret-77").ensure_bucket()
        assert "refused the access key" in caught.value.message
        assert "MODELCTL_STORE_SECRET_KEY" in str(caught.value.remedy)
        assert "wrong-secret-77" not in f"{caught.value.message}{caught.value.remedy}"

    def test_no_bucket(self, any_store: ObjectStore, tmp_path: Path) -> None:
        elsewhere = a_store(any_store.place.endpoint)
        path, entry = a_file(tmp_path, b"x")
        with pytest.raises(StoreError, match=f"no bucket '{elsewhere.bucket}'") as caught:
            send_files(elsewhere, [Sending(key="k", path=path, entry=entry)], nothing)
        assert "store.bucket" in str(caught.value.remedy)
        assert elsewhere.read("k") is None
        assert elsewhere.sizes("") == {}
        assert "not there yet" in elsewhere.describe()
        assert any_store.bucket in any_store.describe()

    def test_something_that_is_no_s3_server(self, tmp_path: Path) -> None:
        import threading
        from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

        with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                with pytest.raises(StoreError) as caught:
                    a_store(f"http://127.0.0.1:{server.server_port}").ensure_bucket()
            finally:
                server.shutdown()
        assert "not as an S3 server does" in caught.value.message
        assert "console" in str(caught.value.remedy)

    def test_a_bad_bucket_name(self, rclone: Running) -> None:
        with pytest.raises(StoreError, match="invalid successive characters"):
            a_store(rclone.address, bucket="No_Such..Name").ensure_bucket()

    def test_plain_http_where_tls_is_spoken(self, rclone: Running) -> None:
        with pytest.raises(StoreError) as caught:
            a_store(rclone.address.replace("http://", "https://")).ensure_bucket()
        assert "TLS" in caught.value.message
        assert "ca_file" in str(caught.value.remedy)


def test_an_unreachable_store_says_so_without_repeating_a_url() -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        a_store(f"http://127.0.0.1:{free_port()}").put_if_absent("k", b"x")
    assert "is not reachable" in caught.value.message
    assert "Signature" not in caught.value.message
    assert "modelctl services up" in str(caught.value.remedy)
    assert caught.value.exit_code == 3


class TestOpening:
    def test_keys_and_where_the_server_is_come_from_the_same_settings(self) -> None:
        settings = Store(endpoint="https://s3.example.org", addressing="virtual-host", region="eu-west-1")
        store = ObjectStore.open(settings, environ={"MINIO_ACCESS_KEY": "minio-id", "MINIO_SECRET_KEY": "hush"})
        assert (store.server.access_key, store.server.secret_key) == ("minio-id", "hush")
        assert store.server.minio.get_presigned_url("GET", "models", "k").startswith("https://models.s3.example.org/k?")
        by_path = ObjectStore.open(settings.model_copy(update={"addressing": "path"}), environ={})
        built = by_path.server.minio._base_url.build(method="GET", region="", bucket_name="models", object_name="k")
        assert built.netloc == "s3.example.org"

    def test_no_store_at_all(self, tmp_path: Path) -> None:
        keep_credentials(s3_folder(tmp_path))
        with pytest.raises(InputError, match="no object store is set") as caught:
            ObjectStore.open(Store(), environ={}, state=tmp_path)
        assert "modelctl services up" in str(caught.value.remedy)

    @pytest.mark.parametrize("endpoint", ["minio:9000", "ftp://x", "http://", "http://h/path", "http://a:b@h"])
    def test_a_malformed_endpoint(self, endpoint: str) -> None:
        with pytest.raises(InputError, match=r"store\.endpoint"):
            ObjectStore(endpoint=endpoint, bucket="models", access_key=ACCESS_KEY, secret_key=SECRET_KEY)

    def test_a_missing_certificate_file(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"store\.ca_file"):
            ObjectStore(endpoint="https://h:1", bucket="models", ca_file=tmp_path / "none.pem")
