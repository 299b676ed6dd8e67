"""Publication against real servers and real git: once, whole, and the same after any interruption."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelctl.admission.attestation import verify
from modelctl.admission.dsse import Envelope
from modelctl.admission.keys import KeyVerifier, load_signing_key
from modelctl.admission.report import Report
from modelctl.errors import InputError, RefusedError
from modelctl.git import GitError
from modelctl.model.release import Metadata
from modelctl.model.s3_client import Listed, S3Client
from modelctl.model.s3_faults import StoreUnavailableError
from modelctl.progress import SILENT, Task, Unit
from modelctl.registry.announced import PUBLISHING, announce, others_announced
from modelctl.registry.manifest import Manifest, Served, manifest_key
from modelctl.registry.publish import publish
from modelctl.registry.pull import pull
from modelctl.registry.recording import WRITTEN
from modelctl.registry.records import load_record
from modelctl.registry.sending import Sending, send_files
from modelctl.registry.store import ObjectStore, StoredObject
from modelctl.registry.upload import carry_out, end_uploads
from modelctl.services.process import Running, free_port
from tests.registry.conftest import a_store
from tests.support.keys import fingerprint
from tests.support.publication import MOMENTS, POLICY, Proposal, publish_and_die
from tests.support.reports import DIGEST, a_check, a_report
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

FILES = {"tiny/1.0.0/config.json", "tiny/1.0.0/model.safetensors", "tiny/1.0.0/extra/größe 1.txt", "tiny/1.0.0/z"}


class Notes:
    """Progress that keeps what was said to the person."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def task(self, label: str, *, total: float | None, unit: Unit) -> AbstractContextManager[Task]:
        return SILENT.task(label, total=total, unit=unit)

    def note(self, message: str) -> None:
        self.lines.append(message)


def assert_whole(proposal: Proposal, store: ObjectStore) -> None:
    """The bucket, the record, the commit and the tag all say the same."""
    git, tree = proposal.git, proposal.tree()
    assert set(store.sizes(f"{proposal.name}/{proposal.version}/")) == FILES
    content = store.read(manifest_key(proposal.name, proposal.version))
    assert content is not None
    manifest = Manifest.from_json(content, name=proposal.name, version=proposal.version)
    record = load_record(proposal.root, proposal.name, proposal.version)
    assert record.served == manifest.served
    assert record.published_at == manifest.published_at
    assert record.served.tree_digest == tree.digest
    commits = git.run("log", "--format=%H", "--grep=^Publish").split()
    assert len(commits) == 1
    assert git.run("rev-parse", "tiny@v1.0.0^{commit}").strip() == commits[0]
    assert git.run("cat-file", "-t", "tiny@v1.0.0").strip() == "tag"
    assert git.run("status", "--porcelain").strip() == ""
    trailers = git.run("log", "-1", "--format=%(trailers:only,unfold)", commits[0])
    assert f"Model-Release: {proposal.id}" in trailers
    assert f"Model-Digest: {tree.digest}" in trailers
    assert f"Policy-Digest: {POLICY.digest}" in trailers
    envelope = Envelope.from_json((proposal.folder / "attestation.dsse.json").read_text(), origin="it")
    statement = verify(envelope, [KeyVerifier(load_signing_key(proposal.root / "key").public_key())])
    assert statement.served.digest == tree.digest
    assert statement.report == Report.from_json((proposal.folder / "admission.json").read_text(), origin="it")


@pytest.mark.services
class TestOnce:
    def test_a_publication_is_whole(self, proposal: Proposal, any_store: ObjectStore, tmp_path: Path) -> None:
        done = proposal.publish(any_store)
        assert_whole(proposal, any_store)
        assert done.bytes_of("send") == proposal.tree().size_bytes
        assert done.key_id == fingerprint(proposal.root / "key")
        assert done.commit == proposal.git.head()
        changed = proposal.git.run("show", "--name-only", "--format=", "HEAD").split()
        folder = "registry/tiny/1.0.0/"
        assert changed == [".dvc/.gitignore", ".dvc/config", *sorted(folder + name for name in WRITTEN)]
        pull(any_store, load_record(proposal.root, "tiny", "1.0.0").served, tmp_path / "pulled")
        assert (tmp_path / "pulled" / "model.safetensors").read_bytes() == b"\0" * 5000

    def test_it_says_whether_the_server_keeps_others_apart(
        self, proposal: Proposal, store: ObjectStore, strict_store: ObjectStore
    ) -> None:
        notes = Notes()
        lax = proposal.publish(store, progress=notes).capabilities
        assert lax is not None
        assert not lax.conditional_writes
        assert any("does not enforce If-None-Match" in note for note in notes.lines)
        later = Notes()
        strict = proposal.next_version("1.1.0").publish(strict_store, progress=later).capabilities
        assert strict is not None
        assert strict.conditional_writes
        assert later.lines == []

    def test_a_second_time_sends_nothing_and_changes_nothing(self, proposal: Proposal, any_store: ObjectStore) -> None:
        first = proposal.publish(any_store)
        (proposal.root / "later").write_text("work goes on")
        proposal.git.commit([proposal.root / "later"], "Something else", trailers={})
        head = proposal.git.head()
        (proposal.root / "key").unlink()
        (proposal.root / "key.pub").unlink()
        with pytest.raises(InputError, match=r"signing\.key"):
            proposal.publish(any_store)
        again = _with_another_key(proposal).publish(any_store)
        assert proposal.git.head() == head
        assert again.commit == first.commit
        assert again.key_id == first.key_id
        assert {step.action for step in again.steps} == {"keep"}
        assert again.manifest_existed

    def test_other_bytes_are_refused(self, proposal: Proposal, any_store: ObjectStore) -> None:
        proposal.publish(any_store)
        before = any_store.sizes("")
        (proposal.root / "model" / "config.json").write_text("{ }\n")
        proposal.admit()
        with pytest.raises(RefusedError, match="published already with other bytes") as caught:
            proposal.publish(any_store)
        assert "new version" in str(caught.value.remedy)
        assert any_store.sizes("") == before
        assert any_store.read("tiny/1.0.0/config.json") == b"{}\n"

    def test_other_bytes_are_refused_where_git_knows_nothing_of_the_release(
        self, proposal: Proposal, any_store: ObjectStore, tmp_path: Path
    ) -> None:
        proposal.publish(any_store)
        proposal.git.run("reset", "--quiet", "--hard", "HEAD~1")
        (proposal.root / "model" / "config.json").write_text("{ }\n")
        proposal.admit()
        with pytest.raises(RefusedError, match="published already with other bytes"):
            proposal.publish(any_store)
        assert any_store.read("tiny/1.0.0/config.json") == b"{}\n"

    def test_a_tampered_record_is_refused(self, proposal: Proposal, store: ObjectStore) -> None:
        proposal.publish(store)
        (proposal.folder / "admission.json").write_text("{}")
        with pytest.raises(RefusedError, match=r"is not the file that record\.yaml names"):
            proposal.publish(store)

    def test_another_bucket_than_the_records_is_refused(self, proposal: Proposal, store: ObjectStore) -> None:
        proposal.publish(store)
        with pytest.raises(InputError, match="is recorded at s3://"):
            proposal.publish(a_store(store.place.endpoint))

    def test_a_dry_run_writes_nothing(self, proposal: Proposal, store: ObjectStore) -> None:
        head = proposal.git.head()
        plan = proposal.publish(store, dry_run=True)
        assert {step.action for step in plan.steps} == {"send"}
        assert plan.commit is None
        assert "not there yet" in store.describe()
        assert proposal.git.head() == head
        assert [path.name for path in proposal.folder.iterdir()] == ["release.yaml"]

    def test_what_another_release_holds_is_copied_on_the_server(
        self, proposal: Proposal, any_store: ObjectStore
    ) -> None:
        proposal.publish(any_store)
        (proposal.root / "model" / "config.json").write_text('{"new": 1}\n')
        done = proposal.next_version("1.1.0").publish(any_store)
        assert {step.entry.path: step.action for step in done.steps} == {
            "config.json": "send",
            "extra/größe 1.txt": "send",
            "model.safetensors": "copy",
            "z": "copy",
        }
        assert done.tag == "tiny@v1.1.0"
        assert done.bytes_of("send") == len(b'{"new": 1}\n')
        assert any_store.read("tiny/1.1.0/model.safetensors") == b"\0" * 5000


@pytest.mark.services
class TestInterrupted:
    @pytest.mark.parametrize("moment", MOMENTS)
    def test_the_same_command_again_makes_it_whole(
        self, proposal: Proposal, any_store: ObjectStore, moment: str
    ) -> None:
        environ = {
            "TEST_ACCESS_KEY": str(any_store.server.access_key),
            "TEST_SECRET_KEY": str(any_store.server.secret_key),
        }
        assert publish_and_die(proposal, any_store, moment, environ=environ) == -9
        exists = any_store.read(manifest_key("tiny", "1.0.0")) is not None
        assert exists == (moment not in ("within-the-files", "before-the-manifest"))
        done = proposal.publish(any_store)
        if exists:
            assert done.bytes_of("send") == 0
        assert_whole(proposal, any_store)

    def test_debris_of_an_attempt_with_other_bytes_is_swept_away(
        self, proposal: Proposal, any_store: ObjectStore
    ) -> None:
        any_store.ensure_bucket()
        any_store.put_if_absent("tiny/1.0.0/old.bin", b"old")
        any_store.put_if_absent("tiny/1.0.0/z", b"y")
        proposal.publish(any_store)
        assert_whole(proposal, any_store)
        assert any_store.read("tiny/1.0.0/z") == b"z"

    def test_a_file_that_was_lost_or_overwritten_later_is_put_back(
        self, proposal: Proposal, strict_store: ObjectStore
    ) -> None:
        proposal.publish(strict_store)
        strict_store.remove("tiny/1.0.0/z")
        strict_store.remove("tiny/1.0.0/config.json")
        strict_store.put_if_absent("tiny/1.0.0/config.json", b"other")
        done = proposal.publish(strict_store)
        assert done.bytes_of("send") == len(b"z") + len(b"{}\n")
        assert_whole(proposal, strict_store)

    def test_bytes_that_change_during_the_upload_are_refused_and_nothing_is_recorded(
        self, proposal: Proposal, any_store: ObjectStore
    ) -> None:
        tree = proposal.tree()
        (proposal.root / "model" / "model.safetensors").write_bytes(b"\1" * 5000)
        with pytest.raises(RefusedError, match="not the bytes that were admitted"):
            proposal.publish(any_store, tree=tree)
        assert any_store.read(manifest_key("tiny", "1.0.0")) is None
        assert any_store.stat("tiny/1.0.0/model.safetensors") is None
        assert [path.name for path in proposal.folder.iterdir()] == ["release.yaml"]

    def test_a_tree_that_was_only_looked_at_is_hashed_once_whatever_happens_to_its_files(
        self, proposal: Proposal, any_store: ObjectStore
    ) -> None:
        """What is sent as it is sent, what is there already and all of a dry run beside it."""
        looked_at = replace(proposal.tree(), hashed=False)
        proposal.publish(any_store, tree=looked_at)
        assert_whole(proposal, any_store)
        (proposal.root / "model" / "model.safetensors").write_bytes(b"\1" * 5000)
        for dry_run in (True, False):
            with pytest.raises(RefusedError, match=r"model\.safetensors: not the bytes that were admitted"):
                proposal.publish(any_store, tree=looked_at, dry_run=dry_run)
        second = proposal.next_version("1.1.0")
        again = replace(second.tree(), hashed=False)
        (proposal.root / "model" / "model.safetensors").write_bytes(b"\2" * 5000)
        with pytest.raises(RefusedError, match="not the bytes that were admitted"):
            second.publish(any_store, tree=again)
        assert any_store.read(manifest_key("tiny", "1.1.0")) is None

    def test_an_unreachable_store_records_nothing(self, proposal: Proposal) -> None:
        with pytest.raises(StoreUnavailableError):
            proposal.publish(a_store(f"http://127.0.0.1:{free_port()}"))
        assert [path.name for path in proposal.folder.iterdir()] == ["release.yaml"]


@pytest.mark.services
class TestRivals:
    """Two publications of one version at the same time: whoever is late learns of it, and records nothing."""

    def test_a_rival_that_overwrites_a_file_is_noticed_before_the_manifest(
        self, proposal: Proposal, any_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rival = tmp_path / "z"
        rival.write_bytes(b"y")
        entry = proposal.tree().by_path["z"]._replace(sha256=hashlib.sha256(b"y").hexdigest())

        def overtaken(store: ObjectStore, *arguments: Any, **options: Any) -> object:
            done = carry_out(store, *arguments, **options)
            announce(store, "tiny", "1.0.0", DIGEST)
            send_files(store, [Sending(key="tiny/1.0.0/z", path=rival, entry=entry)], lambda _: None)
            return done

        monkeypatch.setattr("modelctl.registry.publish.carry_out", overtaken)
        with pytest.raises(RefusedError, match=r"someone else writes to tiny@1\.0\.0"):
            proposal.publish(any_store)
        assert any_store.read(manifest_key("tiny", "1.0.0")) is None
        assert [path.name for path in proposal.folder.iterdir()] == ["release.yaml"]

    def test_what_is_sent_alone_is_not_looked_at_where_a_look_costs_reading_it(
        self, proposal: Proposal, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looked_at: list[str] = []
        stat, listing = ObjectStore.stat, S3Client.listing

        def noted(store: ObjectStore, key: str) -> StoredObject | None:
            looked_at.append(key)
            return stat(store, key)

        def listed(server: S3Client, bucket: str, prefix: str) -> Iterator[Listed]:
            looked_at.append(prefix)
            return listing(server, bucket, prefix)

        monkeypatch.setattr(ObjectStore, "stat", noted)
        monkeypatch.setattr(S3Client, "listing", listed)
        proposal.publish(store)
        assert [key for key in looked_at if key.startswith("tiny/")] == []

    def test_another_publication_that_has_not_ended_is_told_of(
        self, proposal: Proposal, any_store: ObjectStore
    ) -> None:
        any_store.ensure_bucket()
        announce(any_store, "tiny", "1.0.0", DIGEST)
        notes = Notes()
        proposal.publish(any_store, progress=notes)
        assert any(f"of {DIGEST}, has begun and not ended" in said for said in notes.lines)
        assert_whole(proposal, any_store)
        assert any_store.sizes(PUBLISHING) == {}

    def test_a_publication_that_fails_leaves_its_word(self, proposal: Proposal, any_store: ObjectStore) -> None:
        tree = proposal.tree()
        (proposal.root / "model" / "z").write_bytes(b"y")
        with pytest.raises(RefusedError):
            proposal.publish(any_store, tree=tree)
        assert others_announced(any_store, "tiny", "1.0.0", DIGEST) == (tree.digest,)
        assert others_announced(any_store, "tiny", "1.0.0", tree.digest) == ()

    @pytest.mark.parametrize("same_bytes", [True, False])
    def test_a_rival_that_writes_the_manifest_first_wins(
        self, proposal: Proposal, strict_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, same_bytes: bool
    ) -> None:
        tree = proposal.tree() if same_bytes else replace(proposal.tree(), files=proposal.tree().files[1:])
        theirs = Manifest(
            release=Metadata(name="tiny", version="1.0.0"),
            served=Served.of(tree, bucket=strict_store.bucket, name="tiny", version="1.0.0"),
            published_at="2020-01-01T00:00:00Z",
        )

        def overtaken(store: ObjectStore, *arguments: Any, **options: Any) -> None:
            end_uploads(store, *arguments, **options)
            store.put_if_absent(manifest_key("tiny", "1.0.0"), theirs.to_json())

        monkeypatch.setattr("modelctl.registry.publish.end_uploads", overtaken)
        if same_bytes:
            proposal.publish(strict_store)
            assert_whole(proposal, strict_store)
            assert load_record(proposal.root, "tiny", "1.0.0").published_at == "2020-01-01T00:00:00Z"
        else:
            with pytest.raises(RefusedError, match="published already with other bytes"):
                proposal.publish(strict_store)
            assert [path.name for path in proposal.folder.iterdir()] == ["release.yaml"]


class TestRefused:
    """Everything that is known before the store is asked; the store of these tests does not exist."""

    NOWHERE = a_store("http://127.0.0.1:9")

    @pytest.mark.parametrize(
        ("report", "reason"),
        [
            ({"verdict": "refused"}, "verdict of its report is 'refused' \\(integrity: 1 finding\\)"),
            ({"verdict": "undecided"}, "verdict of its report is 'undecided'"),
            ({"partial": True}, "partial"),
            ({"release": "tiny@1.0.1"}, "report is of tiny@1.0.1"),
            ({"release": None}, "report is of folder"),
            ({"served_digest": DIGEST}, "the files are sha256:"),
            ({"served_digest": None}, "report admitted None"),
            ({"policy_digest": "sha256:" + "00" * 32}, "is not the one that holds now"),
        ],
    )
    def test_what_was_not_admitted(self, proposal: Proposal, report: dict[str, object], reason: str) -> None:
        made = a_report(**{"release": proposal.id, "served_digest": proposal.tree().digest, **report})  # type: ignore[arg-type]  # built from cases
        proposal.report.write_text(made.to_json())
        with pytest.raises(RefusedError, match=reason) as caught:
            proposal.publish(self.NOWHERE)
        assert caught.value.remedy == "modelctl admit tiny@1.0.0"

    def test_a_release_file_that_was_edited_after_it_was_judged(self, proposal: Proposal) -> None:
        path = proposal.folder / "release.yaml"
        path.write_text(path.read_text() + "  serving: {max_model_len: 131072}\n")
        with pytest.raises(RefusedError, match=r"release\.yaml is not the one that was judged"):
            proposal.publish(self.NOWHERE)

    @pytest.mark.parametrize("outcome", ["failed", "error"])
    def test_a_verdict_that_its_own_checks_deny(self, proposal: Proposal, outcome: str) -> None:
        report = json.loads(proposal.report.read_text())
        report["checks"][0]["outcome"] = outcome
        proposal.report.write_text(json.dumps(report))
        with pytest.raises(RefusedError, match="contradicts itself: admitted, with integrity"):
            proposal.publish(self.NOWHERE)

    def test_a_verdict_without_checks(self, proposal: Proposal) -> None:
        report = replace(a_report(a_check(), release=proposal.id, served_digest=proposal.tree().digest), checks=())
        proposal.report.write_text(report.to_json())
        with pytest.raises(RefusedError, match="no checks"):
            proposal.publish(self.NOWHERE)

    def test_a_tree_with_a_link_out_of_it(self, proposal: Proposal) -> None:
        (proposal.root / "model" / "link").symlink_to("/etc/hostname")
        with pytest.raises(RefusedError, match="link points outside"):
            proposal.publish(self.NOWHERE)

    @pytest.mark.parametrize("content", [None, b"{}", b"not json", b"\xff"])
    def test_no_report(self, proposal: Proposal, content: bytes | None) -> None:
        proposal.report.unlink()
        if content is not None:
            proposal.report.write_bytes(content)
        with pytest.raises(InputError, match="report"):
            proposal.publish(self.NOWHERE)

    def test_no_release_file(self, proposal: Proposal) -> None:
        (proposal.folder / "release.yaml").unlink()
        with pytest.raises(InputError, match=r"release\.yaml"):
            proposal.publish(self.NOWHERE)

    def test_no_git_identity(self, proposal: Proposal, monkeypatch: pytest.MonkeyPatch) -> None:
        for key in ("user.name", "user.email"):
            proposal.git.run("config", "--unset", key)
        proposal.git.run("config", "user.useConfigOnly", "true")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        for variable in ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"):
            monkeypatch.delenv(variable, raising=False)
        with pytest.raises(GitError) as caught:
            proposal.publish(self.NOWHERE)
        assert "user.name" in str(caught.value.remedy)

    def test_no_signing_key_is_set(self, proposal: Proposal) -> None:
        (proposal.root / "modelctl.yaml").write_text("{}\n")
        with pytest.raises(InputError, match="no signing key") as caught:
            proposal.publish(self.NOWHERE)
        assert "ssh-keygen -t ecdsa" in str(caught.value.remedy)
        assert "MODELCTL_SIGNING_KEY" in str(caught.value.remedy)

    def test_a_signer_that_is_not_allowed(self, proposal: Proposal) -> None:
        public = (proposal.root / "key.pub").read_text()
        signers = proposal.root / "policies" / "allowed_signers"
        signers.parent.mkdir()
        signers.write_text("# nobody yet\n")
        with pytest.raises(InputError, match="is not in") as caught:
            proposal.publish(self.NOWHERE)
        assert public.split()[1] in str(caught.value.remedy)
        signers.write_text(f"ci@example.org {public}")
        with pytest.raises(StoreUnavailableError):
            proposal.publish(self.NOWHERE)

    def test_a_malformed_release_id(self, proposal: Proposal) -> None:
        with pytest.raises(InputError, match="NAME@VERSION"):
            publish(
                proposal.workspace,
                "../x@1",
                report_path=proposal.report,
                tree=proposal.tree(),
                store=self.NOWHERE,
                policy=POLICY,
            )


def _with_another_key(proposal: Proposal) -> Proposal:
    from tests.support.keys import ssh_key

    ssh_key(proposal.root / "key")
    return proposal


@pytest.mark.services
def test_a_server_that_forgot_its_metadata_is_not_sent_the_release_again(
    proposal: Proposal, rclone: Running, store: ObjectStore, tmp_path: Path
) -> None:
    from modelctl.services.process import running
    from modelctl.services.s3 import s3_server

    def server() -> ObjectStore:
        return ObjectStore(endpoint=service.address, bucket="models", access_key=ACCESS_KEY, secret_key=SECRET_KEY)

    with running(s3_server(tmp_path / "s3", access_key=ACCESS_KEY, secret_key=SECRET_KEY)) as service:
        proposal.publish(server())
    with running(s3_server(tmp_path / "s3", access_key=ACCESS_KEY, secret_key=SECRET_KEY)) as service:
        assert {step.action for step in proposal.publish(server()).steps} == {"keep"}
        assert_whole(proposal, server())
