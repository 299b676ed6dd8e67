"""What says of a release who vouches for it and what it is made of: in git and in the bucket, by the sha256 that the
record names, and every other byte is found."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from modelctl.admission.keyless import sigstore_verifier
from modelctl.admission.keyless_signing import TOKEN
from modelctl.audit.timeline import timeline
from modelctl.audit.verify import verify
from modelctl.cli.attested import attestation_lines, attestation_plain
from modelctl.cli.audit_text import evidence
from modelctl.errors import InputError
from modelctl.registry.claims import Claim, claims_in_bucket, claims_in_git
from modelctl.registry.manifest import bom_key, paper_keys, signature_key
from modelctl.registry.records import load_record
from modelctl.registry.store import ObjectStore
from modelctl.registry.trust import signers_of
from modelctl.settings import Workspace, load_workspace
from tests.admission.test_keyless import SIGNER
from tests.support.bucket import overwrite
from tests.support.keys import openssl_key, ssh_key
from tests.support.progress import Notes
from tests.support.publication import Proposal
from tests.support.sigstore import IDENTITY, ISSUER, sigstore, token

FILES = ("model.sig", "bom.cdx.json")
pytestmark = pytest.mark.services


def states(claims: list[Claim]) -> dict[str, str]:
    return {claim.what: claim.state for claim in claims}


def claims(proposal: Proposal, store: ObjectStore) -> list[Claim]:
    record = load_record(proposal.root, "tiny", "1.0.0")
    signers = signers_of(proposal.root)
    return [*claims_in_git(proposal.root, record, signers), *claims_in_bucket(store, record, signers)]


def allow(proposal: Proposal, public: Path, name: str = "ann@example.org") -> None:
    (proposal.root / "policies" / "signers").mkdir(parents=True, exist_ok=True)
    if public.read_text().startswith("-----"):
        (proposal.root / "policies" / "signers" / f"{name}.pem").write_text(public.read_text())
    else:
        with (proposal.root / "policies" / "allowed_signers").open("a") as stream:
            stream.write(f"{name} {public.read_text()}")


class TestEachKindOfKey:
    @pytest.mark.parametrize(("kind", "words"), [("ecdsa", "ECDSA P-256"), ("ed25519", "Ed25519")])
    @pytest.mark.parametrize("form", ["openssh", "pem"])
    def test_it_signs_and_verify_says_who_when_and_what(
        self, proposal: Proposal, store: ObjectStore, kind: str, words: str, form: str
    ) -> None:
        if form == "pem":
            key = openssl_key(proposal.root / "key2", kind="P-256" if kind == "ecdsa" else kind)
        else:
            key = ssh_key(proposal.root / "key2", kind=kind)
        (proposal.root / "modelctl.yaml").write_text("signing: {key: key2}\n")
        allow(proposal, key.with_suffix(".pub"))
        notes = Notes()
        done = proposal.publish(store, progress=notes)
        assert any("no model.sig" in line for line in notes.lines) is (kind == "ed25519")
        found = claims(proposal, store)
        assert set(states(found).values()) == {"agrees"}
        assert ("model signature" in states(found)) is (kind == "ecdsa")
        signed = next(claim.signed for claim in found if claim.signed)
        text = "\n".join(attestation_lines(signed))
        assert f"signed by    ann@example.org ({words} {done.key_id})" in text
        assert f"said at      {signed.statement.report.created_at}" in text
        for check in signed.statement.report.checks:
            assert check.id in text
        assert "3 of 3 files" in text
        body = json.loads(json.dumps(attestation_plain(signed)))
        assert (body["signers"], body["key_kind"], body["key_id"]) == (["ann@example.org"], words, done.key_id)
        assert body["coverage"]["malware"] == [{"unit": "files", "seen": 3, "total": 3, "excluded": []}]

    def test_an_ed25519_key_signs_with_an_ecdsa_key_beside_it(self, proposal: Proposal, store: ObjectStore) -> None:
        model_key = proposal.root / "key"
        ssh_key(proposal.root / "key2")
        (proposal.root / "modelctl.yaml").write_text("signing: {key: key2, model_key: key}\n")
        allow(proposal, (proposal.root / "key2.pub"))
        with pytest.raises(InputError, match="nobody could verify"):
            proposal.publish(store)
        allow(proposal, model_key.with_suffix(".pub"), "model@example.org")
        proposal.publish(store)
        found = {claim.what: claim.detail for claim in claims(proposal, store)}
        assert found["model signature"].startswith("signed by model@example.org (SHA256:")
        assert found["attestation"].startswith("signed by ann@example.org")


class Keyless(Proposal):
    """The same, with a job's token at hand."""

    @property
    def workspace(self) -> Workspace:
        return load_workspace(self.root, environ={TOKEN: token()})


class TestWithoutAKey:
    """Signed by sigstore: every paper of a publication, by a job whose token names it."""

    def test_everything_is_signed_and_verified_and_the_log_tells_the_time(
        self, proposal: Proposal, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = proposal.root
        with sigstore() as log:
            (root / "report-trust.json").write_text(json.dumps(log.trust_config()))
            (root / "modelctl.yaml").write_text("signing: {keyless: true, trust_config: report-trust.json}\n")
            (root / "policies" / "signers").mkdir(parents=True)
            signer = root / "policies" / "signers" / "publish.yaml"
            signer.write_text(SIGNER.replace(IDENTITY, "someone@example.org"))
            (signer.parent / "ours.json").write_text(json.dumps(log.trusted_root()))
            keyless = Keyless(root=root)
            with pytest.raises(InputError, match="nobody could verify") as caught:
                keyless.publish(store)
            assert f"for identity {IDENTITY} and issuer {ISSUER}" in str(caught.value.remedy)
            signer.write_text(SIGNER)
            proposal.git.run("add", "policies")
            proposal.git.run("commit", "--quiet", "--message", "Allow the workflow")
            tried = keyless.publish(store, dry_run=True)
            assert (tried.key_id, tried.identity) == (None, f"{IDENTITY} ({ISSUER})")
            assert log.entries == []  # nothing is public before it is published
            done = keyless.publish(store)
        found = claims(proposal, store)
        assert set(states(found).values()) == {"agrees"}
        signed = next(claim.signed for claim in found if claim.signed)
        assert signed.statement.signed_by == (done.identity, done.key_id)
        assert done.identity == tried.identity
        assert (done.key_id or "").startswith("SHA256:")
        text = "\n".join(attestation_lines(signed))
        assert f"signed by    publish (sigstore identity {IDENTITY} ({ISSUER}), key SHA256:" in text
        assert "sigstore's log took the signature in at 20" in text
        assert attestation_plain(signed)["log_index"] == 41
        for name in ("attestation.dsse.json", "model.sig", "checkpoint.dsse.json"):
            assert "tlogEntries" in json.loads((proposal.folder / name).read_text())["verificationMaterial"]
        audited = verify(root)
        assert [(problem.rule, problem.message) for problem in audited.violations] == []
        assert audited.signatures == 1
        told = next(item for item in timeline(root) if item.kind == "published")
        assert told.signer == done.identity
        assert f"signed {done.identity}, tagged" in evidence(told)
        record = proposal.folder / "record.yaml"
        record.write_text(record.read_text().replace(f"identity: {IDENTITY}", "identity: ann@example.org"))
        proposal.git.run("commit", "--quiet", "--amend", "--no-edit", str(record))
        lied = [problem.message for problem in verify(root).violations if problem.rule == "audit.signer-recorded"]
        assert lied == [f"signed by {done.identity}, the record names ann@example.org ({ISSUER})"]
        signer.write_text(SIGNER.replace(ISSUER, "https://other.example.org"))
        assert states(claims(proposal, store))["attestation"] == "contradicts"
        signer.write_text(SIGNER.replace("  trusted_root: ours.json\n", ""))
        for name in ("HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
            monkeypatch.setenv(name, str(root / "report-home"))
        sigstore_verifier.cache_clear()
        assert states(claims(proposal, store))["attestation"] == "unchecked"


class TestKept:
    @pytest.fixture(autouse=True)
    def published(self, proposal: Proposal, store: ObjectStore) -> None:
        allow(proposal, proposal.root / "key.pub")
        proposal.publish(store)

    def test_git_and_the_bucket_hold_the_files_that_the_record_names(
        self, proposal: Proposal, store: ObjectStore
    ) -> None:
        evidence = load_record(proposal.root, "tiny", "1.0.0").evidence
        assert set(FILES) < set(evidence.files)
        for name, key in zip(("attestation.dsse.json", *FILES), paper_keys("tiny", "1.0.0"), strict=True):
            content = (proposal.folder / name).read_bytes()
            assert hashlib.sha256(content).hexdigest() == evidence.files[name]
            assert store.read(key) == content
        assert set(states(claims(proposal, store)).values()) == {"agrees"}

    @pytest.mark.parametrize(
        ("name", "what"), [("model.sig", "model signature"), ("bom.cdx.json", "bill of materials")]
    )
    def test_another_byte_in_either_place_is_found(
        self, proposal: Proposal, store: ObjectStore, name: str, what: str
    ) -> None:
        path = proposal.folder / name
        path.write_bytes(path.read_bytes() + b" ")
        assert states(claims(proposal, store))[what] == "contradicts"
        key = signature_key("tiny", "1.0.0") if name == "model.sig" else bom_key("tiny", "1.0.0")
        overwrite(store, key, b"{}")
        assert states(claims(proposal, store))[f"{what} in the bucket"] == "contradicts"
        store.remove(key)
        assert states(claims(proposal, store))[f"{what} in the bucket"] == "contradicts"

    def test_what_the_bucket_lost_comes_back_from_git(self, proposal: Proposal, store: ObjectStore) -> None:
        before = {key: store.read(key) for key in paper_keys("tiny", "1.0.0")}
        for key in before:
            store.remove(key)
        proposal.publish(store)
        assert {key: store.read(key) for key in before} == before

    def test_a_model_signature_of_another_key_is_found(self, proposal: Proposal, store: ObjectStore) -> None:
        (proposal.root / "policies" / "allowed_signers").write_text("")
        allow(proposal, ssh_key(proposal.root / "key3", kind="ecdsa").with_suffix(".pub"))
        assert states(claims(proposal, store))["model signature"] == "contradicts"

    def test_nobody_is_named_as_signer(self, proposal: Proposal, store: ObjectStore) -> None:
        (proposal.root / "policies" / "allowed_signers").unlink()
        found = states(claims(proposal, store))
        assert found["model signature"] == "unchecked"
        assert found["bill of materials"] == "agrees"
