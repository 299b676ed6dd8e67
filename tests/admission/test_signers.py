"""`policies/allowed_signers`: the same file that git reads, and no restriction is ever ignored."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from modelctl.admission.keys import KeySigner, load_signing_key
from modelctl.admission.policy_files import FolderFiles
from modelctl.admission.signers import load_allowed_signers, repository_signers
from modelctl.errors import InputError
from tests.support.keys import fingerprint, openssl_key, ssh_key


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ssh_key(tmp_path_factory.mktemp("keys") / "key")


@pytest.fixture
def public(key: Path) -> str:
    return key.with_suffix(".pub").read_text().strip()


def signers(tmp_path: Path, text: str) -> list[tuple[tuple[str, ...], str]]:
    path = tmp_path / "allowed_signers"
    path.write_text(text)
    return [(signer.principals, signer.key_id) for signer in load_allowed_signers(path)]


def test_comments_blank_lines_and_several_principals(tmp_path: Path, key: Path, public: str) -> None:
    text = f'# who\n\na@example.org,*@ci.example.org {public} a comment\n"b c" {public}\n'
    assert signers(tmp_path, text) == [
        (("a@example.org", "*@ci.example.org"), fingerprint(key)),
        (("b c",), fingerprint(key)),
    ]


def test_namespaces_decide_whether_a_key_signs_attestations(tmp_path: Path, public: str) -> None:
    for namespaces, count in (("modelctl", 1), ("git,modelctl", 1), ("*", 1), ("git", 0), ("", 0)):
        assert len(signers(tmp_path, f'a namespaces="{namespaces}" {public}\n')) == count


def test_keys_of_other_types_may_sign_commits_only(tmp_path: Path) -> None:
    rsa = ssh_key(tmp_path / "rsa", kind="rsa").with_suffix(".pub").read_text()
    assert signers(tmp_path, f"a {rsa}") == []


def test_ecdsa_keys_sign_too(tmp_path: Path) -> None:
    key = ssh_key(tmp_path / "ecdsa", kind="ecdsa")
    assert signers(tmp_path, f"a {key.with_suffix('.pub').read_text()}") == [(("a",), fingerprint(key))]


class TestPem:
    def test_a_file_of_public_keys_stands_for_its_name(self, tmp_path: Path) -> None:
        keys = [openssl_key(tmp_path / kind, kind=kind) for kind in ("ed25519", "P-256", "P-384", "P-521")]
        path = tmp_path / "ci@example.org.pem"
        path.write_text("".join(key.with_suffix(".pub").read_text() for key in keys))
        found = load_allowed_signers(path)
        assert [signer.principals for signer in found] == [("ci@example.org",)] * 4
        assert [signer.key_id for signer in found] == [KeySigner(load_signing_key(key)).key_id for key in keys]

    def test_a_repository_lists_both_forms(self, tmp_path: Path, public: str, key: Path) -> None:
        files = FolderFiles(tmp_path)
        assert repository_signers(files) is None
        (tmp_path / "policies" / "signers").mkdir(parents=True)
        assert repository_signers(files) is None
        (tmp_path / "policies" / "signers" / "README.md").write_text("who\n")
        pem = openssl_key(tmp_path / "key.pem", kind="P-256")
        (tmp_path / "policies" / "signers" / "ci.pem").write_text(pem.with_suffix(".pub").read_text())
        assert [signer.principals for signer in repository_signers(files) or ()] == [("ci",)]
        (tmp_path / "policies" / "allowed_signers").write_text(f"ann {public}\n")
        found = repository_signers(files) or ()
        assert [signer.principals for signer in found] == [("ann",), ("ci",)]
        assert found[0].key_id == fingerprint(key)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "a private key"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "PEM public keys and nothing else"),
            ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "can't be read"),
        ],
    )
    def test_what_is_no_public_key(self, tmp_path: Path, text: str, problem: str) -> None:
        (tmp_path / "x.pem").write_text(text)
        with pytest.raises(InputError, match=problem) as caught:
            load_allowed_signers(tmp_path / "x.pem")
        assert "openssl pkey" in str(caught.value.remedy)

    def test_an_rsa_key(self, tmp_path: Path) -> None:
        command = ["openssl", "genpkey", "-algorithm", "RSA", "-out", tmp_path / "k"]
        subprocess.run(command, check=True, capture_output=True)
        subprocess.run(["openssl", "pkey", "-in", tmp_path / "k", "-pubout", "-out", tmp_path / "x.pem"], check=True)
        with pytest.raises(InputError, match="neither Ed25519 nor ECDSA"):
            load_allowed_signers(tmp_path / "x.pem")


@pytest.mark.parametrize(
    "options", ['valid-before="20200101"', "cert-authority", 'namespaces="*",valid-after="20300101"']
)
def test_a_restriction_that_is_not_understood_is_an_error(tmp_path: Path, public: str, options: str) -> None:
    with pytest.raises(InputError, match=r"allowed_signers:2: the options"):
        signers(tmp_path, f"#\na {options} {public}\n")


@pytest.mark.parametrize(
    "line", ["a", "a ssh-ed25519", "a ssh-ed25519 AAAA", "ssh-ed25519 AAAA", "a what ever it is", "a ssh-ed25519 !!"]
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError, match="allowed_signers:1"):
        signers(tmp_path, line + "\n")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_allowed_signers(tmp_path / "allowed_signers")
