"""What a server can do is tried, and a server that says yes to everything is not believed."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from minio.error import S3Error

from modelctl.admission.policy import LoadedPolicy, Retention
from modelctl.model.s3_faults import StoreError
from modelctl.registry.capabilities import Capabilities, probe
from modelctl.registry.manifest import manifest_key
from modelctl.registry.store import ObjectStore, StoredObject
from modelctl.registry.upload import NEWEST, plan_upload
from tests.registry.conftest import a_store
from tests.support.broken_s3 import Answer, broken_s3
from tests.support.progress import Notes
from tests.support.publication import POLICY, Proposal, propose

LOCKED_POLICY = LoadedPolicy(
    POLICY.policy.model_copy(
        update={"spec": POLICY.policy.spec.model_copy(update={"retention": Retention(mode="governance", days=30)})}
    ),
    POLICY.path,
)


@pytest.mark.services
class TestProbe:
    def test_rclone(self, store: ObjectStore) -> None:
        store.ensure_bucket()
        assert probe(store) == Capabilities(
            conditional_writes=False, keeps_metadata=True, copies=True, copies_parts=False, lists_parts=True,
            keeps_etags=False, versioning=False, object_lock=False,
        )  # fmt: skip
        assert probe(store).lacks() == (
            "conditional writes", "copies over 5 GiB", "kept ETags", "versioning", "object lock",
        )  # fmt: skip

    def test_moto(self, strict_store: ObjectStore) -> None:
        strict_store.ensure_bucket()
        plain = probe(strict_store)
        assert plain.lacks() == ("versioning", "object lock")
        assert probe(strict_store) == plain
        locked = a_store(strict_store.place.endpoint)
        assert locked.ensure_bucket(object_lock=True)
        assert probe(locked).lacks() == ()
        assert not locked.ensure_bucket(object_lock=True)

    def test_it_leaves_one_small_object_and_no_upload(self, any_store: ObjectStore) -> None:
        any_store.ensure_bucket()
        probe(any_store)
        assert set(any_store.sizes("")) == {".modelctl/probe"}


def test_a_server_that_says_yes_to_everything_can_nothing() -> None:
    def answer(_method: str, _path: str, _headers: dict[str, str]) -> Answer:
        return 200, "application/xml", b"<Yes/>"

    with broken_s3(answer) as server:
        found = probe(ObjectStore(endpoint=server.url, bucket="models", access_key="a", secret_key="b", region="x"))
    assert found.has() == ()


def test_a_bucket_that_may_not_be_written_to_is_an_error() -> None:
    denied = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>"
    with broken_s3(lambda *_: (403, "application/xml", denied)) as server, pytest.raises(StoreError, match="refused"):
        probe(ObjectStore(endpoint=server.url, bucket="models", access_key="a", secret_key="b", region="x"))


@pytest.mark.services
class TestCopies:
    def test_an_object_of_any_size_is_copied_in_parts(self, strict_store: ObjectStore) -> None:
        strict_store.ensure_bucket()
        content = bytes(5 << 20) + b"the rest"
        strict_store.put_whole("a/1/f", content, sha256="ab" * 32)
        source = strict_store.stat("a/1/f")
        assert source is not None
        strict_store.copy_by_parts(source, "b/1/f", "cd" * 32, part_bytes=5 << 20)
        assert strict_store.read("b/1/f") == content
        copied = strict_store.stat("b/1/f")
        assert copied is not None
        assert copied.sha256 == "cd" * 32


@pytest.mark.services
class TestReuse:
    """Bytes that the bucket holds under any name are not sent again, and a hint alone is never believed."""

    @pytest.fixture
    def second(self, tmp_path: Path) -> Proposal:
        """Another model in another repository, with the same weights."""
        files = {"config.json": b'{"other": true}\n', "weights.safetensors": b"\0" * 5000}
        return propose(tmp_path / "other", files=files, name="other")

    def test_another_name_is_copied_from(self, proposal: Proposal, second: Proposal, store: ObjectStore) -> None:
        proposal.publish(store)
        done = second.publish(store)
        assert {step.entry.path: step.action for step in done.steps} == {
            "config.json": "send", "weights.safetensors": "copy",
        }  # fmt: skip
        assert store.read("other/1.0.0/weights.safetensors") == b"\0" * 5000

    def test_a_source_that_is_overwritten_while_it_is_copied_is_not_trusted(
        self, proposal: Proposal, second: Proposal, strict_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        proposal.publish(strict_store)
        original = ObjectStore.copy

        def overtaken(store: ObjectStore, source: StoredObject, key: str, sha256: str) -> None:
            store.put_whole(source.key, b"\1" * 5000, sha256="ab" * 32)
            original(store, source, key, sha256)

        monkeypatch.setattr(ObjectStore, "copy", overtaken)
        done = second.publish(strict_store)
        assert {step.action for step in done.steps} == {"send"}
        assert strict_store.read("other/1.0.0/weights.safetensors") == b"\0" * 5000

    @pytest.mark.parametrize("lie", ["gone", "overwritten", "nonsense", "elsewhere"])
    def test_a_hint_that_is_wrong_costs_a_file_sent(
        self, proposal: Proposal, second: Proposal, store: ObjectStore, lie: str
    ) -> None:
        proposal.publish(store)
        sha256 = second.tree().by_path["weights.safetensors"].sha256
        match lie:
            case "gone":
                store.remove("tiny/1.0.0/model.safetensors")
            case "overwritten":
                store.put_whole("tiny/1.0.0/model.safetensors", b"\1" * 5000, sha256="ab" * 32)
            case "nonsense":
                store.put_whole(f".modelctl/contents/{sha256}", b"\xff\x00../..")
            case "elsewhere":
                store.put_whole(f".modelctl/contents/{sha256}", b".modelctl/releases/tiny/1.0.0.json")
        done = second.publish(store)
        assert {step.action for step in done.steps} == {"send"}
        assert store.read("other/1.0.0/weights.safetensors") == b"\0" * 5000
        assert store.read(f".modelctl/contents/{sha256}") == b"other/1.0.0/weights.safetensors"

    def test_the_newest_manifests_help_out_where_hints_are_gone_however_many_there_are(
        self, proposal: Proposal, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        proposal.publish(store)
        manifest = store.read(manifest_key("tiny", "1.0.0"))
        assert manifest is not None
        for patch in range(1, 41):
            other = manifest.replace(b'"version": "1.0.0"', b'"version": "0.9.%d"' % patch)
            store.put_whole(manifest_key("tiny", f"0.9.{patch}"), other)
        for key in store.sizes(".modelctl/contents/"):
            store.remove(key)
        asked: list[str] = []
        read = ObjectStore.read
        monkeypatch.setattr(ObjectStore, "read", lambda self, key: (asked.append(key), read(self, key))[1])
        tree = proposal.tree()
        steps = plan_upload(store, tree, name="tiny", version="1.1.0", published=False)
        assert {step.entry.path for step in steps if step.action == "copy"} == {
            "config.json", "model.safetensors", "z",
        }  # fmt: skip
        assert len(asked) <= len(tree.files) + NEWEST


@pytest.mark.services
class TestRetention:
    def test_a_bucket_that_we_make_is_locked_and_the_release_kept(
        self, proposal: Proposal, strict_store: ObjectStore
    ) -> None:
        proposal.admit(policy_digest=LOCKED_POLICY.digest)
        done = proposal.publish(strict_store, policy=LOCKED_POLICY)
        assert done.retained_until is not None
        assert abs(done.retained_until - datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=30)) < (
            datetime.timedelta(minutes=5)
        )
        for key in ("tiny/1.0.0/z", ".modelctl/releases/tiny/1.0.0.json"):
            found = strict_store.server.minio.stat_object(strict_store.bucket, key)
            assert found.metadata["x-amz-object-lock-mode"] == "GOVERNANCE"
            until = found.metadata["x-amz-object-lock-retain-until-date"]
            assert datetime.datetime.fromisoformat(until) == done.retained_until
            with pytest.raises(S3Error, match="AccessDenied"):
                strict_store.server.minio.remove_object(strict_store.bucket, key, version_id=found.version_id)
        assert proposal.publish(strict_store, policy=LOCKED_POLICY).retained_until == done.retained_until

    def test_a_server_without_locks_is_named_and_the_release_published(
        self, proposal: Proposal, store: ObjectStore
    ) -> None:
        proposal.admit(policy_digest=LOCKED_POLICY.digest)
        notes = Notes()
        done = proposal.publish(store, policy=LOCKED_POLICY, progress=notes)
        assert done.retained_until is None
        assert any("has no object lock" in line and "30 days" in line for line in notes.lines)
        assert done.commit == proposal.git.head()
