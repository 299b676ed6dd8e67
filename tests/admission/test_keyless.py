"""Keyless signatures: sigstore's own client signs at a sigstore of the test's own, its own verifier decides, and every
other identity, issuer, log or byte is refused; what can't be asked decides nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelctl.admission import keyless
from modelctl.admission.attestation import sign, verify
from modelctl.admission.dsse import Envelope
from modelctl.admission.evidence_signature import SIGNATURE_FILE, sign_evidence, verify_evidence
from modelctl.admission.keyless import KeylessVerifier, log_entry
from modelctl.admission.keyless_signing import TOKEN, KeylessSigner, load_keyless_signer
from modelctl.admission.keys import KeySigner, load_signing_key
from modelctl.admission.model_signature import sign_model, verify_model
from modelctl.admission.policy_files import FolderFiles
from modelctl.admission.policy_text import check
from modelctl.admission.signers import AllowedSigner, load_allowed_signers, repository_signers
from modelctl.admission.signing import load_model_signer, load_signer
from modelctl.errors import CannotDecideError, InputError, RefusedError
from modelctl.model.tree import FileEntry, Tree, scan_tree
from modelctl.settings import Workspace, load_workspace
from tests.support.http_server import QuietHandler, served
from tests.support.keys import openssl_key
from tests.support.reports import a_report
from tests.support.sigstore import IDENTITY, ISSUER, Sigstore, sigstore, token

TREE = Tree(root=Path(), files=(FileEntry(path="a", size_bytes=1, sha256=hashlib.sha256(b"a").hexdigest()),))
REPORT = a_report(served_digest=TREE.digest)
SIGNER = f"""\
apiVersion: modelctl.dev/v1
kind: KeylessSigner
spec:
  identity: {IDENTITY}
  issuer: {ISSUER}
  trusted_root: ours.json
"""


@pytest.fixture(scope="module")
def log() -> Iterator[Sigstore]:
    with sigstore() as running:
        yield running


@pytest.fixture(scope="module")
def signer(log: Sigstore) -> KeylessSigner:
    trust = json.dumps(log.trust_config())
    return KeylessSigner(identity=IDENTITY, issuer=ISSUER, token=token(lives_s=36000), trust=trust)


@pytest.fixture(scope="module")
def verifier(log: Sigstore) -> KeylessVerifier:
    return KeylessVerifier(identity=IDENTITY, issuer=ISSUER, root=json.dumps(log.trusted_root()), place="ours.json")


@pytest.fixture(scope="module")
def envelope(signer: KeylessSigner) -> Envelope:
    return Envelope.from_json(sign(REPORT, TREE, signer).to_json(), origin="it")


def changed(envelope: Envelope, change: Callable[[dict[str, Any]], object]) -> Envelope:
    """The bundle with something in it changed."""
    body = json.loads(envelope.to_json())
    change(body)
    return Envelope.from_json(json.dumps(body), origin="it")


class TestAttestation:
    def test_what_was_signed_is_verified_and_the_log_vouches_for_the_time(
        self, envelope: Envelope, verifier: KeylessVerifier, log: Sigstore
    ) -> None:
        statement = verify(envelope, [verifier])
        assert (statement.report, statement.served.files) == (REPORT, TREE.files)
        assert statement.signed_by.key_id.startswith("SHA256:")
        assert statement.signed_by.identity == f"{IDENTITY} ({ISSUER})"
        assert envelope.to_json() == changed(envelope, lambda body: None).to_json() or log.entries
        entry = log_entry(envelope)
        assert entry is not None
        assert (entry.index, entry.logged_at[:2], entry.logged_at[-1]) == (41, "20", "Z")
        assert any(b'"dsse"' in body for body in log.entries)

    def test_the_signer_names_the_key_of_the_moment(self, signer: KeylessSigner, verifier: KeylessVerifier) -> None:
        first, second = (sign(REPORT, TREE, signer) for _ in range(2))
        names = [envelope.signatures[0][0] for envelope in (first, second)]
        assert names[0] != names[1]
        assert [verifier.signer_of(envelope) for envelope in (first, second)] == names

    @pytest.mark.parametrize(
        ("other", "reason"),
        [
            ({"identity": "ann@example.org"}, "SANs do not match ann@example.org; actual SANs"),
            ({"identity": IDENTITY.replace("main", "other")}, "SANs do not match"),
            ({"issuer": "https://accounts.google.com"}, f"got '{ISSUER}', expected 'https://accounts.google.com'"),
        ],
    )
    def test_another_identity_or_issuer_is_refused_with_both_names(
        self, envelope: Envelope, verifier: KeylessVerifier, other: dict[str, str], reason: str
    ) -> None:
        with pytest.raises(RefusedError) as caught:
            verify(envelope, [replace(verifier, **other)])
        assert "no allowed key has signed the attestation" in caught.value.message
        assert reason in caught.value.message

    def test_another_sigstore_is_refused(self, envelope: Envelope, verifier: KeylessVerifier, log: Sigstore) -> None:
        stranger = Sigstore(url=log.url)
        other = replace(verifier, root=json.dumps(stranger.trusted_root()))
        with pytest.raises(RefusedError, match="certificate chain"):
            verify(envelope, [other])

    @pytest.mark.parametrize(
        "change",
        [
            lambda body: body["dsseEnvelope"].update(payload=base64.b64encode(b"{}").decode()),
            lambda body: body["dsseEnvelope"].update(payloadType="text/plain"),
            lambda body: body["dsseEnvelope"]["signatures"][0].update(sig=base64.b64encode(b"x" * 70).decode()),
            lambda body: body["dsseEnvelope"]["signatures"].append(body["dsseEnvelope"]["signatures"][0]),
            lambda body: body["verificationMaterial"]["tlogEntries"].clear(),
            lambda body: body["verificationMaterial"]["tlogEntries"][0].update(integratedTime="1700000000"),
            lambda body: body["verificationMaterial"]["tlogEntries"][0]["inclusionProof"].update(hashes=[]),
            lambda body: body["verificationMaterial"]["tlogEntries"][0].pop("inclusionPromise"),
            lambda body: body["verificationMaterial"].update(tlogEntries=3),
            lambda body: body.update(mediaType="application/json"),
        ],
    )
    def test_a_changed_bundle_is_refused(
        self, envelope: Envelope, verifier: KeylessVerifier, change: Callable[[dict[str, Any]], object]
    ) -> None:
        with pytest.raises(RefusedError, match="no allowed key has signed"):
            verify(changed(envelope, change), [verifier])

    def test_another_bundles_certificate_and_log_entry_do_not_carry_it(
        self, envelope: Envelope, signer: KeylessSigner, verifier: KeylessVerifier
    ) -> None:
        other = json.loads(sign(a_report(served_digest=TREE.digest, release="other@1.0.0"), TREE, signer).to_json())
        mixed = changed(envelope, lambda body: body.update(verificationMaterial=other["verificationMaterial"]))
        with pytest.raises(RefusedError, match="invalid signature"):
            verify(mixed, [verifier])

    def test_a_key_and_a_keyless_signer_side_by_side(
        self, tmp_path: Path, envelope: Envelope, verifier: KeylessVerifier
    ) -> None:
        key = KeySigner(load_signing_key(openssl_key(tmp_path / "key.pem", kind="P-256")))
        from modelctl.admission.keys import KeyVerifier

        both = [KeyVerifier(key.public), verifier]
        assert verify(envelope, both).signed_by.name == verifier.name
        assert verify(sign(REPORT, TREE, key), both).signed_by.key_id == key.key_id
        plain = sign(REPORT, TREE, key)
        assert (verifier.signer_of(plain), verifier.why_not(plain), log_entry(plain)) == (None, None, None)

    def test_an_envelope_without_its_bundle_is_nobodys(self, envelope: Envelope, verifier: KeylessVerifier) -> None:
        bare = replace(envelope, bundle=None)
        with pytest.raises(RefusedError, match="no allowed key has signed"):
            verify(bare, [verifier])


class TestTheModelsSignature:
    def test_it_is_of_exactly_the_files(self, tmp_path: Path, signer: KeylessSigner, verifier: KeylessVerifier) -> None:
        (tmp_path / "config.json").write_text("{}")
        tree = scan_tree(tmp_path)
        allowed = [AllowedSigner(principals=("ci",), verifier=verifier, key_id=None)]
        text = sign_model(tree, "tiny@1.0.0", signer)
        assert verify_model(text, tree, allowed, origin="model.sig").principals == ("ci",)
        with pytest.raises(RefusedError, match="signed are other files"):
            verify_model(text, TREE, allowed, origin="model.sig")
        stranger = [replace(allowed[0], verifier=replace(verifier, identity="x@example.org"))]
        with pytest.raises(RefusedError, match="SANs do not match"):
            verify_model(text, tree, stranger, origin="model.sig")

    @pytest.mark.slow
    def test_their_command_verifies_it_and_ours_takes_theirs(
        self, tmp_path: Path, log: Sigstore, signer: KeylessSigner, verifier: KeylessVerifier
    ) -> None:
        folder, trust = tmp_path / "model", tmp_path / "trust.json"
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        trust.write_text(json.dumps(log.trust_config()))
        tree = scan_tree(folder)
        (tmp_path / "model.sig").write_bytes(sign_model(tree, "tiny@1.0.0", signer))

        def theirs(*arguments: object) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-P", "-m", "model_signing", *map(str, arguments), "--trust_config", str(trust)]
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

        wanted = ("verify", "sigstore", folder, "--signature", tmp_path / "model.sig", "--identity_provider", ISSUER)
        done = theirs(*wanted, "--identity", IDENTITY)
        assert done.returncode == 0, done.stdout + done.stderr
        done = theirs(*wanted, "--identity", "ann@example.org")
        assert done.returncode != 0
        done = theirs("sign", "sigstore", folder, "--signature", tmp_path / "their.sig", "--identity_token", token())
        assert done.returncode == 0, done.stdout + done.stderr
        allowed = [AllowedSigner(principals=("ci",), verifier=verifier, key_id=None)]
        assert verify_model((tmp_path / "their.sig").read_bytes(), tree, allowed, origin="their.sig") == allowed[0]


def test_evidence_is_signed_too(tmp_path: Path, signer: KeylessSigner, verifier: KeylessVerifier) -> None:
    text = REPORT.to_json()
    (tmp_path / SIGNATURE_FILE).write_text(sign_evidence(REPORT, signer))
    allowed = [AllowedSigner(principals=("ci",), verifier=verifier, key_id=None)]
    assert str(verify_evidence(tmp_path, text, allowed)).startswith("SHA256:")
    with pytest.raises(RefusedError, match="of another report"):
        verify_evidence(tmp_path, text.replace("1.5", "1.6"), allowed)


class TestWhoMaySign:
    def lay(self, root: Path, log: Sigstore, text: str = SIGNER) -> Path:
        folder = root / "policies" / "signers"
        folder.mkdir(parents=True)
        (folder / "ci.yaml").write_text(text)
        (folder / "ours.json").write_text(json.dumps(log.trusted_root()))
        return folder

    def test_a_file_lets_one_identity_sign(self, tmp_path: Path, log: Sigstore, envelope: Envelope) -> None:
        folder = self.lay(tmp_path, log)
        listed = repository_signers(FolderFiles(tmp_path))
        assert listed is not None
        for (found,) in (listed, load_allowed_signers(folder / "ci.yaml")):
            assert (found.principals, found.key_id) == (("ci",), None)
            assert found.verifier.signer_of(envelope) is not None
            assert found.verifier.name == f"{IDENTITY} ({ISSUER})"

    def test_a_client_trust_configuration_is_a_trusted_root_too(
        self, tmp_path: Path, log: Sigstore, envelope: Envelope
    ) -> None:
        folder = self.lay(tmp_path, log)
        (folder / "ours.json").write_text(json.dumps(log.trust_config()))
        (found,) = load_allowed_signers(folder / "ci.yaml")
        assert found.verifier.signer_of(envelope) is not None

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (SIGNER.replace("issuer:", "isuer:"), "isuer"),
            (SIGNER.replace(f"  identity: {IDENTITY}\n", ""), "identity"),
            (SIGNER.replace(ISSUER, "google"), "issuer"),
            (SIGNER.replace("ours.json", "../ours.json"), "trusted_root"),
            (SIGNER.replace("ours.json", "gone.json"), "gone.json is not beside it"),
            (SIGNER.replace("KeylessSigner", "Signer"), "kind"),
        ],
    )
    def test_a_mistake_in_it_is_an_error_that_names_the_file(
        self, tmp_path: Path, log: Sigstore, text: str, reason: str
    ) -> None:
        self.lay(tmp_path, log, text)
        with pytest.raises(InputError, match=reason) as caught:
            repository_signers(FolderFiles(tmp_path))
        assert "signers/ci.yaml" in caught.value.message
        assert any(reason in problem for problem in check(FolderFiles(tmp_path)).problems)

    @pytest.mark.parametrize("root", ["{", "{}", '{"mediaType": "text/plain"}', "[]"])
    def test_a_trusted_root_that_is_none(self, tmp_path: Path, log: Sigstore, envelope: Envelope, root: str) -> None:
        folder = self.lay(tmp_path, log)
        (folder / "ours.json").write_text(root)
        (found,) = load_allowed_signers(folder / "ci.yaml")
        with pytest.raises(InputError, match=r"ours\.json: no trusted root of a sigstore"):
            found.verifier.signer_of(envelope)

    def test_policy_check_takes_the_files_and_names_others(self, tmp_path: Path, log: Sigstore) -> None:
        folder = self.lay(tmp_path, log)
        assert check(FolderFiles(tmp_path)).problems == ()
        (folder / "ci.pub").write_text("")
        assert "wanted a name that ends with .pem or .yaml" in check(FolderFiles(tmp_path)).problems[0]


class TestNothingToAsk:
    def test_the_public_root_without_a_network_decides_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, envelope: Envelope, verifier: KeylessVerifier
    ) -> None:
        for name in ("HTTPS_PROXY", "https_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
            monkeypatch.setenv(name, str(tmp_path))
        keyless.sigstore_verifier.cache_clear()
        with pytest.raises(CannotDecideError, match="trusted root could not be brought up to date") as caught:
            verify(envelope, [replace(verifier, root=None)])
        assert "trusted_root.json" in str(caught.value.remedy)

    def test_without_the_library_nothing_is_decided(
        self, monkeypatch: pytest.MonkeyPatch, envelope: Envelope, verifier: KeylessVerifier, tmp_path: Path
    ) -> None:
        monkeypatch.setitem(sys.modules, "sigstore.errors", None)
        monkeypatch.setitem(sys.modules, "sigstore.oidc", None)
        with pytest.raises(CannotDecideError, match="can't be verified here") as caught:
            verify(envelope, [verifier])
        assert caught.value.remedy == "pip install 'modelctl[sigstore]'"
        with pytest.raises(CannotDecideError, match=r"signing\.keyless"):
            load_keyless_signer(workspace(tmp_path, token()))


def workspace(root: Path, given: str | None = None, *, trust: str | None = None) -> Workspace:
    lines = "signing: {keyless: true" + (f", trust_config: {trust}" if trust else "") + "}\n"
    (root / "modelctl.yaml").write_text(lines)
    return load_workspace(root, environ={TOKEN: given} if given else {})


class TestSigning:
    @pytest.fixture(autouse=True)
    def nowhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "BUILDKITE", "GOOGLE_SERVICE_ACCOUNT_NAME"):
            monkeypatch.delenv(name, raising=False)

    def test_the_settings_ask_for_it(self, tmp_path: Path, log: Sigstore, verifier: KeylessVerifier) -> None:
        (tmp_path / "trust.json").write_text(json.dumps(log.trust_config()))
        space = workspace(tmp_path, token(), trust="trust.json")
        for found in (load_signer(space), load_model_signer(space)):
            assert found is not None
            assert (found.name, found.key_id) == (verifier.name, None)
            assert IDENTITY in found.to_allow
            assert verifier.signer_of(sign(REPORT, TREE, found)) is not None

    def test_a_github_jobs_own_token_is_asked_for_at_each_signature(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Sigstore, verifier: KeylessVerifier
    ) -> None:
        asked = []

        class Handler(QuietHandler):
            def do_GET(self) -> None:  # noqa: N802 - the name of http.server
                asked.append((self.path, self.headers["Authorization"]))
                content = json.dumps({"value": token()}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        (tmp_path / "trust.json").write_text(json.dumps(log.trust_config()))
        with served(Handler) as url:
            monkeypatch.setenv("GITHUB_ACTIONS", "true")
            monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", f"{url}/token?api-version=2.0")
            monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "bearer")
            found = load_signer(workspace(tmp_path, trust="trust.json"))
            assert verifier.signer_of(sign(REPORT, TREE, found)) is not None
        assert [path.partition("?")[0] for path, _ in asked] == ["/token", "/token"]
        assert asked[0][1] == "bearer bearer"

    def test_a_github_job_without_the_permission_is_told_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", raising=False)
        with pytest.raises(CannotDecideError, match="insufficient OIDC token permissions") as caught:
            load_signer(workspace(tmp_path))
        assert "id-token: write" in str(caught.value.remedy)

    def test_nothing_says_who_signs(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="nothing here says who signs") as caught:
            load_signer(workspace(tmp_path))
        assert "sigstore get-identity-token" in str(caught.value.remedy)

    @pytest.mark.parametrize("given", ["x.y.z", token(lives_s=-100)])
    def test_a_token_that_is_none_or_has_expired(self, tmp_path: Path, given: str) -> None:
        with pytest.raises(InputError, match=f"{TOKEN}: .*a token lives for minutes"):
            load_signer(workspace(tmp_path, given))

    @pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), ("{}", "no client trust configuration")])
    def test_a_trust_configuration_that_is_none(self, tmp_path: Path, content: str | None, reason: str) -> None:
        if content is not None:
            (tmp_path / "trust.json").write_text(content)
        with pytest.raises(InputError, match=f"trust.json: {reason}"):
            load_signer(workspace(tmp_path, token(), trust="trust.json"))

    @pytest.mark.parametrize("status", [400, 500])
    def test_a_sigstore_that_does_not_sign_decides_nothing(
        self, monkeypatch: pytest.MonkeyPatch, log: Sigstore, signer: KeylessSigner, status: int
    ) -> None:
        monkeypatch.setattr(log, "broken", status)
        with pytest.raises(CannotDecideError, match=f"sigstore did not sign as .*{status}"):
            sign(REPORT, TREE, signer)

    def test_a_sigstore_that_is_gone_decides_nothing(self, signer: KeylessSigner, log: Sigstore) -> None:
        trust = json.dumps(log.trust_config()).replace(log.url, "http://127.0.0.1:9")
        with pytest.raises(CannotDecideError, match="sigstore did not sign as") as caught:
            sign(REPORT, TREE, replace(signer, trust=trust))
        assert "Fulcio and Rekor" in str(caught.value.remedy)

    def test_the_token_is_no_setting_of_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "modelctl.yaml").write_text("signing: {identity_token: x}\n")
        with pytest.raises(InputError, match="is a secret") as caught:
            load_workspace(tmp_path, environ={})
        assert TOKEN in str(caught.value.remedy)
