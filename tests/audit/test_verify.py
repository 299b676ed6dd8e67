"""Tampering of every kind is found, named, and laid at a commit's door."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from modelctl.admission.keys import KeySigner, load_signing_key
from modelctl.admission.model_signature import SIGNATURE_FILE, sign_model
from modelctl.admission.names import SIGNERS_FILE
from modelctl.audit.verify import verify
from modelctl.git import Git
from modelctl.model.tree import FileEntry, Tree
from modelctl.registry.checkpoint import write_checkpoint
from modelctl.registry.names import RECORD_FILE
from modelctl.rollout.words import DIGEST_ANNOTATION, PUBLISHED_FILE
from tests.support.history import Registry, a_registry, a_served_registry
from tests.support.keys import ssh_key
from tests.support.reports import a_report

OTHER = "sha256:" + "0" * 64
OTHER_BYTES = {"digest-published", "deployed-digest", "allowed-unpublished"}


def rules(registry: Registry) -> set[str]:
    return {violation.rule.removeprefix("audit.") for violation in verify(registry.root).violations}


def digest_of(registry: Registry) -> str:
    return registry.git.run("log", "-1", "--format=%(trailers:key=Model-Digest,valueonly)").strip()


def test_an_honest_history_agrees_with_itself(registry: Registry) -> None:
    result = verify(registry.root)
    assert (result.violations, result.unverified, result.exit_code) == ((), (), 0)
    assert (result.releases, result.deployments, result.signatures) == (1, 1, 1)
    assert result.head == registry.git.head()


def edit_the_record(registry: Registry) -> None:
    registry.edit(registry.folder() / "record.yaml", "description: folder model", "description: folder modem")
    registry.commit("Fix a typo")


def swap_the_published_bytes(registry: Registry) -> None:
    registry.write_record(content="other weights")
    registry.commit("Publish tiny@1.0.0 better")


def swap_the_bytes_and_move_the_tag(registry: Registry) -> None:
    swap_the_published_bytes(registry)
    registry.git.run("tag", "--force", "--annotate", "--message", "tiny@1.0.0", "tiny@v1.0.0")


def edit_the_report(registry: Registry) -> None:
    registry.edit(registry.folder() / "admission.json", '"cpus": 2', '"cpus": 64')
    registry.commit("Touch up the report")


def edit_the_report_and_its_hash(registry: Registry) -> None:
    report = registry.folder() / "admission.json"
    before = hashlib.sha256(report.read_bytes()).hexdigest()
    registry.edit(report, '"cpus": 2', '"cpus": 64')
    registry.edit(registry.folder() / "record.yaml", before, hashlib.sha256(report.read_bytes()).hexdigest())
    registry.commit("Touch up the report and its hash")


def sign_with_a_strangers_key(registry: Registry) -> None:
    registry.write_record(key=ssh_key(registry.root / "key-of-a-stranger"))
    registry.commit("Sign anew")


def sign_with_a_key_brought_along(registry: Registry) -> None:
    key = ssh_key(registry.root / "key-of-a-stranger")
    public = key.with_suffix(".pub").read_text(encoding="utf-8")
    registry.propose(version="2.0.0")
    digest = registry.write_record(version="2.0.0", key=key).served.tree_digest
    (registry.root / "policies" / "allowed_signers").write_text(f"eve@example.org {public}", encoding="utf-8")
    registry.commit("Publish tiny@2.0.0", Model_Release="tiny@2.0.0", Model_Digest=digest)
    registry.git.tag("tiny@v2.0.0", f"tiny@2.0.0\n\nModel-Digest: {digest}")


def publish_what_was_refused(registry: Registry) -> None:
    registry.propose(version="2.0.0")
    digest = registry.write_record(version="2.0.0").served.tree_digest
    report = a_report(release="tiny@2.0.0", served_digest=digest, verdict="refused")
    registry.write_record(version="2.0.0", report=report)
    registry.commit("Publish tiny@2.0.0", Model_Release="tiny@2.0.0", Model_Digest=digest)
    registry.git.tag("tiny@v2.0.0", f"tiny@2.0.0\n\nModel-Digest: {digest}")


def remove_the_attestation(registry: Registry) -> None:
    (registry.folder() / "attestation.dsse.json").unlink()
    registry.commit("Save space")


def remove_the_record(registry: Registry) -> None:
    (registry.folder() / "record.yaml").unlink()
    registry.commit("Forget it")


def delete_the_tag(registry: Registry) -> None:
    registry.git.run("tag", "--delete", "tiny@v1.0.0")


def move_the_tag_to_before(registry: Registry) -> None:
    registry.git.run("tag", "--force", "--annotate", "--message", digest_of(registry), "tiny@v1.0.0", "HEAD~3")


def deploy_another_digest_by_hand(registry: Registry) -> None:
    registry.edit(registry.deployment() / "rollout.yaml", digest_of(registry), OTHER)
    registry.commit("Hotfix")


def deploy_another_digest_in_the_pods_only(registry: Registry) -> None:
    file = registry.deployment() / "rollout.yaml"
    text = file.read_text(encoding="utf-8")
    head, mark, tail = text.rpartition(f"{DIGEST_ANNOTATION}: {digest_of(registry)}")
    assert mark
    file.write_text(f"{head}{DIGEST_ANNOTATION}: {OTHER}{tail}", encoding="utf-8")
    registry.commit("Hotfix")


def stop_verifying_the_weights(registry: Registry) -> None:
    registry.edit(registry.deployment() / "rollout.yaml", f"- {digest_of(registry)}", "- any")
    registry.commit("Speed up the start")


def deploy_what_was_never_published(registry: Registry) -> None:
    registry.edit(registry.deployment() / "rollout.yaml", "tiny@1.0.0", "tiny@9.9.9")
    registry.commit("Try the next version")


def lie_in_the_trailers(registry: Registry) -> None:
    digest = digest_of(registry)
    registry.edit(registry.deployment() / "rollout.yaml", "replicas: 9", "replicas: 8")
    registry.commit("Roll out", Model_Release="tiny@1.0.1", Model_Digest=digest, Environment="prod")


def let_in_what_was_never_published(registry: Registry) -> None:
    registry.edit(registry.root / PUBLISHED_FILE, "tiny_1.0.0: ", f"eve_1.0.0: {OTHER}\n  tiny_1.0.0: ")
    registry.commit("Let Eve in")


def publish_with_a_model_signature(
    registry: Registry, *, of: str = "weights", allowed: bool = True, named: bool = True
) -> None:
    """tiny@2.0.0 as a publication leaves it, model.sig included: over these bytes, by an ECDSA key that is listed, and
    named by the record."""
    key = ssh_key(registry.root / "key-of-models", kind="ecdsa")
    if allowed:
        with (registry.root / SIGNERS_FILE).open("a", encoding="utf-8") as listed:
            listed.write(f"models@example.org {key.with_suffix('.pub').read_text(encoding='utf-8')}")
        registry.commit("Let the models' key sign")
    registry.propose(version="2.0.0")
    record = registry.write_record(version="2.0.0")
    digest = record.served.tree_digest
    sha256 = hashlib.sha256(of.encode()).hexdigest()
    tree = Tree(root=Path(), files=(FileEntry(path="model.safetensors", size_bytes=len(of), sha256=sha256),))
    signature = sign_model(tree, "tiny@2.0.0", KeySigner(load_signing_key(key)))
    (registry.folder(version="2.0.0") / SIGNATURE_FILE).write_bytes(signature)
    if named:
        named_by = {"model_signature_sha256": hashlib.sha256(signature).hexdigest()}
        record = record.model_copy(update={"evidence": record.evidence.model_copy(update=named_by)})
        (registry.folder(version="2.0.0") / RECORD_FILE).write_text(record.to_yaml(), encoding="utf-8")
    write_checkpoint(registry.root, "tiny@2.0.0", digest, KeySigner(load_signing_key(registry.root / "key")))
    registry.commit("Publish tiny@2.0.0", Model_Release="tiny@2.0.0", Model_Digest=digest)
    registry.git.tag("tiny@v2.0.0", f"tiny@2.0.0\n\nModel-Digest: {digest}")


def sign_other_bytes_as_the_model(registry: Registry) -> None:
    publish_with_a_model_signature(registry, of="other weights")


def sign_the_model_with_a_strangers_key(registry: Registry) -> None:
    publish_with_a_model_signature(registry, allowed=False)


def lay_a_model_signature_beside_the_record(registry: Registry) -> None:
    publish_with_a_model_signature(registry, of="other weights", named=False)


def edit_the_model_signature(registry: Registry) -> None:
    publish_with_a_model_signature(registry)
    path = registry.folder(version="2.0.0") / SIGNATURE_FILE
    bundle = json.loads(path.read_bytes())
    signature = base64.b64decode(bundle["dsseEnvelope"]["signatures"][0]["sig"])
    bundle["dsseEnvelope"]["signatures"][0]["sig"] = base64.b64encode(signature[:-1] + b"\0").decode()
    path.write_text(json.dumps(bundle), encoding="utf-8")
    registry.commit("Touch up the signature")


def test_a_model_signature_of_the_same_bytes_agrees(registry: Registry) -> None:
    publish_with_a_model_signature(registry)
    assert verify(registry.root).exit_code == 0


def smuggle_a_change_into_a_merge(registry: Registry) -> None:
    git = registry.git
    git.run("checkout", "--quiet", "-b", "side")
    registry.propose("other")
    git.run("checkout", "--quiet", "main")
    registry.propose("third")
    git.run("merge", "--quiet", "--no-ff", "--no-commit", "side")
    registry.edit(registry.folder() / "record.yaml", "description: folder model", "description: folder modem")
    git.run("commit", "--quiet", "--all", "--message", "Merge side")


@pytest.mark.parametrize(
    ("tamper", "found"),
    [
        (edit_the_record, {"record-changed"}),
        (swap_the_published_bytes, {"record-changed", "tag-digest", *OTHER_BYTES}),
        (swap_the_bytes_and_move_the_tag, {"record-changed", "tag-digest", "tag-moved", *OTHER_BYTES}),
        (edit_the_report, {"record-changed", "evidence-changed", "report-signed"}),
        (edit_the_report_and_its_hash, {"record-changed", "report-signed"}),
        (sign_with_a_strangers_key, {"record-changed", "signature"}),
        (sign_with_a_key_brought_along, {"signature", "checkpoint-missing"}),
        (publish_what_was_refused, {"not-admitted", "checkpoint-missing"}),
        (remove_the_attestation, {"record-changed", "evidence-missing"}),
        (remove_the_record, {"record-changed", "record-missing", "deployed-unpublished", "allowed-unpublished"}),
        (delete_the_tag, {"tag-missing"}),
        (move_the_tag_to_before, {"tag-moved"}),
        (deploy_another_digest_by_hand, {"deployed-digest", "rollout-untraced"}),
        (deploy_another_digest_in_the_pods_only, {"deployed-unnamed", "rollout-untraced"}),
        (stop_verifying_the_weights, {"deployed-unverified"}),
        (deploy_what_was_never_published, {"deployed-unpublished", "rollout-untraced"}),
        (lie_in_the_trailers, {"rollout-trailers"}),
        (let_in_what_was_never_published, {"allowed-unpublished"}),
        (sign_other_bytes_as_the_model, {"model-signature"}),
        (sign_the_model_with_a_strangers_key, {"model-signature"}),
        (lay_a_model_signature_beside_the_record, {"model-signature"}),
        (edit_the_model_signature, {"model-signature", "record-changed", "evidence-changed"}),
        (smuggle_a_change_into_a_merge, {"record-changed"}),
    ],
)
def test_tampering_is_found(registry: Registry, tamper: Callable[[Registry], None], found: set[str]) -> None:
    tamper(registry)
    result = verify(registry.root)
    assert {violation.rule.removeprefix("audit.") for violation in result.violations} == found
    assert result.exit_code == 1
    for violation in result.violations:
        assert violation.remedy
        assert violation.commit


def test_a_change_is_laid_at_the_door_of_its_commit(registry: Registry) -> None:
    edit_the_record(registry)
    changed = registry.git.head()
    registry.propose("other")
    (violation,) = [item for item in verify(registry.root).violations if item.rule == "audit.record-changed"]
    assert violation.commit == changed
    assert violation.path == "registry/tiny/1.0.0/record.yaml"


def test_a_change_that_was_taken_back_is_still_told(registry: Registry) -> None:
    edit_the_record(registry)
    registry.git.run("revert", "--no-edit", "HEAD")
    assert rules(registry) == {"record-changed"}


def test_a_rollout_before_its_publication_is_found(tmp_path: Path) -> None:
    registry = a_served_registry(tmp_path / "registry")
    root = registry.git.run("rev-list", "--max-parents=0", "HEAD").strip()
    publication, rollout = registry.git.run("rev-list", "--reverse", f"{root}..HEAD").split()[1:]
    registry.git.run("reset", "--quiet", "--hard", f"{publication}~1")
    registry.git.run("tag", "--delete", "tiny@v1.0.0")
    registry.git.run("cherry-pick", rollout)
    registry.publish()
    assert rules(registry) == {"rollout-early"}


def test_without_allowed_signers_nothing_is_taken_for_signed(tmp_path: Path) -> None:
    registry = a_registry(tmp_path / "registry", signers=False)
    registry.propose()
    registry.publish()
    result = verify(registry.root)
    assert (result.violations, result.signatures, result.exit_code) == ((), 0, 3)
    assert "nobody says whose signature counts" in result.unverified[0].reason


def test_nothing_to_verify_is_not_a_pass(registry: Registry) -> None:
    assert verify(registry.root, name="no-such-model").exit_code == 3
    assert verify(registry.root, name="tiny", version="1.0.0").exit_code == 0
    assert verify(registry.root, env="prod").exit_code == 0


def test_a_shallow_clone_can_not_answer(registry: Registry, tmp_path: Path) -> None:
    Git(tmp_path).run("clone", "--quiet", "--depth", "1", f"file://{registry.root}", "clone")
    result = verify(tmp_path / "clone")
    assert any("shallow" in item.reason for item in result.unverified)
    assert result.exit_code != 0


def test_what_is_not_committed_is_not_looked_at(registry: Registry) -> None:
    registry.edit(registry.folder() / "record.yaml", "description: folder model", "description: folder modem")
    assert verify(registry.root).exit_code == 0
