"""`policies/allowed_signers`: the same file that git reads, and no restriction is ever ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.admission.attestation import key_id
from modelctl.admission.signers import load_allowed_signers
from modelctl.errors import InputError
from tests.support.keys import fingerprint, ssh_key


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ssh_key(tmp_path_factory.mktemp("keys") / "key")


@pytest.fixture
def public(key: Path) -> str:
    return key.with_suffix(".pub").read_text().strip()


def signers(tmp_path: Path, text: str) -> list[tuple[tuple[str, ...], str]]:
    path = tmp_path / "allowed_signers"
    path.write_text(text)
    return [(signer.principals, key_id(signer.key)) for signer in load_allowed_signers(path)]


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
    ecdsa = ssh_key(tmp_path / "ecdsa", kind="ecdsa").with_suffix(".pub").read_text()
    assert signers(tmp_path, f"a {ecdsa}") == []


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
