"""`modelctl verify`: every byte and every claim, and an exit code that says how it stands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.registry.manifest import attestation_key, manifest_key
from modelctl.registry.store import ObjectStore
from modelctl.services.process import Running
from tests.registry.conftest import a_store
from tests.support.bucket import overwrite, place
from tests.support.command import modelctl
from tests.support.history import Registry, a_served_registry
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

OBJECT = "tiny/1.0.0/model.safetensors"


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return a_served_registry(tmp_path / "registry")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"weights")
    return tmp_path / "model"


class TestFolder:
    def test_which_release_a_folder_is_follows_from_its_bytes(self, registry: Registry, folder: Path) -> None:
        done = modelctl("verify", folder, "--attestation", cwd=registry.root)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "tiny@1.0.0: everything agrees" in done.stdout
        assert "signed by    test@example.org (Ed25519 SHA256:" in done.stdout
        assert "said at      2026-01-02T03:04:06Z" in done.stdout
        assert "machine      box, 2 CPUs, no GPU, isolation bubblewrap: all checks" in done.stdout
        assert "  passed   integrity      3 of 3 files" in done.stdout

    def test_differences_are_named(self, registry: Registry, folder: Path) -> None:
        (folder / "stranger").write_text("")
        (folder / "model.safetensors").write_bytes(b"weightz")
        unknown = modelctl("verify", folder, cwd=registry.root)
        assert unknown.returncode == 1
        assert "modelctl verify NAME@VERSION" in unknown.stderr

    @pytest.mark.parametrize(
        ("targets", "words"),
        [(("nowhere",), "neither a folder nor NAME@VERSION"), (("a@1.0.0", "b@1.0.0"), "one of each")],
    )
    def test_what_can_not_be_verified(self, registry: Registry, targets: tuple[str, ...], words: str) -> None:
        done = modelctl("verify", *targets, cwd=registry.root)
        assert done.returncode == 2
        assert words in done.stderr

    def test_without_signers_it_is_not_all_checked(self, registry: Registry, folder: Path) -> None:
        (registry.root / "policies" / "allowed_signers").unlink()
        done = modelctl("verify", folder, "--json", cwd=registry.root)
        body = json.loads(done.stdout)
        assert (done.returncode, body["exit_code"], body["attestation"]) == (3, 3, None)
        assert {c["what"]: c["state"] for c in body["claims"]} == {
            "report": "agrees", "attestation": "unchecked", "tag": "agrees", "folder": "agrees",
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("file", "claim"), [("admission.json", "report"), ("attestation.dsse.json", "attestation")]
    )
    def test_changed_evidence_contradicts(self, registry: Registry, folder: Path, file: str, claim: str) -> None:
        path = registry.folder() / file
        path.write_text(path.read_text() + "\n")
        done = modelctl("verify", folder, "--json", cwd=registry.root)
        assert done.returncode == 1
        assert [c["what"] for c in json.loads(done.stdout)["claims"] if c["state"] == "contradicts"] == [claim]

    def test_a_tag_that_was_moved_contradicts(self, registry: Registry, folder: Path) -> None:
        registry.git.run("tag", "--force", "-a", "-m", "moved", "tiny@v1.0.0", "HEAD~3")
        assert "points at" in modelctl("verify", folder, cwd=registry.root).stdout
        registry.git.run("tag", "--delete", "tiny@v1.0.0")
        assert modelctl("verify", folder, cwd=registry.root).returncode == 3


@pytest.mark.services
class TestBucket:
    @pytest.fixture
    def store(self, rclone: Running, registry: Registry) -> ObjectStore:
        store = a_store(rclone.address)
        place(store, {"model.safetensors": b"weights"}, key=registry.root / "key")
        return store

    def verify(self, registry: Registry, store: ObjectStore, *arguments: str | Path) -> tuple[int, dict[str, object]]:
        env = {
            "MODELCTL_STORE_ENDPOINT": store.server.endpoint,
            "MODELCTL_STORE_BUCKET": store.bucket,
            "MODELCTL_STORE_ACCESS_KEY": ACCESS_KEY,
            "MODELCTL_STORE_SECRET_KEY": SECRET_KEY,
        }
        done = modelctl("verify", *arguments, "--json", cwd=registry.root, env=env)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def test_the_bucket_and_a_folder_at_once(self, registry: Registry, store: ObjectStore, folder: Path) -> None:
        code, body = self.verify(registry, store, "tiny@stable:prod", folder, "--full")
        assert (code, body["differences"], body["bytes_read"]) == (0, [], 7)
        assert [c["what"] for c in body["claims"]][-4:] == [  # type: ignore[index, attr-defined]
            "manifest", "attestation in the bucket", "objects", "folder",
        ]  # fmt: skip
        code, body = self.verify(registry, store, "tiny@1.0.0")
        assert (code, body["bytes_read"]) == (0, 0)

    def test_a_changed_byte_is_found_by_reading(self, registry: Registry, store: ObjectStore) -> None:
        sha256 = store.stat(OBJECT)
        assert sha256 is not None
        overwrite(store, OBJECT, b"weightz", sha256=sha256.sha256)
        assert self.verify(registry, store, "tiny@1.0.0")[0] == 0  # the server says what was announced
        for option in (("--full",), ("--sample", "5")):
            code, body = self.verify(registry, store, "tiny@1.0.0", *option)
            assert (code, body["differences"]) == (1, ["bucket, other bytes: model.safetensors"])

    @pytest.mark.parametrize(
        ("content", "sha256", "wanted"),
        [
            (b"weightz", "ab" * 32, "sent with another sha256: model.safetensors"),
            (b"weights and more", None, "of another size: model.safetensors"),
        ],
    )
    def test_what_the_server_says_itself(
        self, registry: Registry, store: ObjectStore, content: bytes, sha256: str | None, wanted: str
    ) -> None:
        overwrite(store, OBJECT, content, sha256=sha256)
        code, body = self.verify(registry, store, "tiny@1.0.0")
        assert (code, body["differences"]) == (1, [f"bucket, {wanted}"])

    def test_missing_and_extra_objects(self, registry: Registry, store: ObjectStore) -> None:
        store.remove(OBJECT)
        overwrite(store, "tiny/1.0.0/run.sh", b"#!")
        code, body = self.verify(registry, store, "tiny@1.0.0")
        assert code == 1
        assert body["differences"] == ["bucket, missing: model.safetensors", "bucket, extra: run.sh"]

    def test_a_release_without_its_manifest_or_attestation(self, registry: Registry, store: ObjectStore) -> None:
        store.remove(attestation_key("tiny", "1.0.0"))
        assert self.verify(registry, store, "tiny@1.0.0")[0] == 3
        store.remove(manifest_key("tiny", "1.0.0"))
        assert self.verify(registry, store, "tiny@1.0.0")[0] == 1

    def test_a_manifest_of_other_bytes(self, registry: Registry, store: ObjectStore) -> None:
        place(store, {"model.safetensors": b"weightz"})
        code, body = self.verify(registry, store, "tiny@1.0.0")
        assert code == 1
        claims = {c["what"]: c["state"] for c in body["claims"]}  # type: ignore[attr-defined, index]
        assert claims["manifest"] == "contradicts"

    def test_the_bucket_alone(self, registry: Registry, store: ObjectStore, folder: Path) -> None:
        source = ("--from", f"s3://{store.bucket}")
        assert self.verify(registry, store, "tiny@1.0.0", folder, *source)[0] == 3
        signers = ("--signers", registry.root / "policies" / "allowed_signers")
        code, body = self.verify(registry, store, "tiny@1.0.0", folder, *source, *signers)
        assert (code, body["release"]) == (0, "tiny@1.0.0")
