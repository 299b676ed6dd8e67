"""Keys of every kind and form that may sign, and those that can't: each verified by a program that is not ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from modelctl.admission.dsse import Envelope, pre_authentication_encoding
from modelctl.admission.keys import (
    PASSPHRASE,
    KeySigner,
    KeyVerifier,
    key_id,
    key_kind,
    load_signing_key,
    public_line,
)
from modelctl.admission.signing import load_model_signer, load_signer
from modelctl.errors import InputError
from modelctl.settings import load_workspace
from tests.support.keys import fingerprint, openssl_key, ssh_key

PEM_KINDS = ("ed25519", "P-256", "P-384", "P-521")
KINDS = {"ed25519": "Ed25519", "P-256": "ECDSA P-256", "P-384": "ECDSA P-384", "P-521": "ECDSA P-521"}
HASH = {"P-256": "sha256", "P-384": "sha384", "P-521": "sha512"}


@pytest.mark.parametrize("kind", PEM_KINDS)
@pytest.mark.parametrize("passphrase", [None, "two words"])
def test_openssl_verifies_what_a_pem_key_signed(tmp_path: Path, kind: str, passphrase: str | None) -> None:
    path = openssl_key(tmp_path / "key.pem", kind=kind, passphrase=passphrase)
    signer = KeySigner(load_signing_key(path, passphrase))
    assert key_kind(signer.public) == KINDS[kind]
    envelope = Envelope.from_json(signer.seal(b'{"a": 1}').to_json(), origin="it")
    assert envelope.signatures[0][0] == signer.key_id
    (tmp_path / "signed").write_bytes(pre_authentication_encoding(envelope.payload_type, envelope.payload))
    (tmp_path / "signature").write_bytes(envelope.signatures[0][1])
    public = path.with_suffix(".pub")
    if kind == "ed25519":
        command = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", public, "-in", "signed"]
        command += ["-sigfile", "signature"]
    else:
        command = ["openssl", "dgst", f"-{HASH[kind]}", "-verify", public, "-signature", "signature", "signed"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert KeyVerifier(signer.public).signer_of(envelope) == signer.key_id


@pytest.mark.parametrize("kind", PEM_KINDS)
def test_a_key_has_one_id_in_both_forms_and_signs_alike(tmp_path: Path, kind: str) -> None:
    """The id is that of ssh-keygen, also for a key that openssl made; signing twice gives the same bytes."""
    signer = KeySigner(load_signing_key(openssl_key(tmp_path / "key.pem", kind=kind)))
    (tmp_path / "ssh.pub").write_text(public_line(signer.public) + " x\n")
    assert signer.key_id == fingerprint(tmp_path / "ssh.pub")
    assert signer.seal(b"{}") == signer.seal(b"{}")


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
@pytest.mark.parametrize("passphrase", ["", "two words"])
def test_openssh_keys(tmp_path: Path, kind: str, passphrase: str) -> None:
    path = ssh_key(tmp_path / "key", kind=kind, passphrase=passphrase)
    key = load_signing_key(path, passphrase or None)
    assert key_id(key.public_key()) == fingerprint(path)


def test_other_kinds_verify_nothing_of_each_other(tmp_path: Path) -> None:
    signers = [KeySigner(load_signing_key(openssl_key(tmp_path / kind, kind=kind))) for kind in PEM_KINDS]
    for signer in signers:
        envelope = signer.seal(b"{}")
        assert [KeyVerifier(other.public).signer_of(envelope) for other in signers] == [
            signer.key_id if other is signer else None for other in signers
        ]


def test_a_key_that_cannot_sign_names_the_command_that_makes_one(tmp_path: Path) -> None:
    (tmp_path / "nonsense").write_text("hello")
    cases = {
        "no signing key is set": None,
        "No such file": tmp_path / "none",
        "is neither Ed25519 nor ECDSA": ssh_key(tmp_path / "rsa", kind="rsa", pem=True),
        "is no private key": tmp_path / "nonsense",
        "Is a directory": tmp_path,
    }
    for problem, path in cases.items():
        with pytest.raises(InputError, match=problem) as caught:
            load_signing_key(path)
        assert "ssh-keygen -t ecdsa" in str(caught.value.remedy)
        assert "signing.key" in str(caught.value.remedy)


@pytest.mark.parametrize("form", ["openssh", "pkcs8", "rfc1421"])
def test_a_passphrase_is_asked_for_by_its_variable(tmp_path: Path, form: str) -> None:
    if form == "pkcs8":
        path = openssl_key(tmp_path / "key", kind="P-256", passphrase="right")
    else:
        path = ssh_key(tmp_path / "key", kind="ecdsa", passphrase="right", pem=form == "rfc1421")
    with pytest.raises(InputError, match=f"has a passphrase, which is read from {PASSPHRASE}"):
        load_signing_key(path)
    with pytest.raises(InputError, match=f"has another passphrase than {PASSPHRASE}") as caught:
        load_signing_key(path, "wrong")
    assert "right" not in str(caught.value)
    assert PASSPHRASE in str(caught.value.remedy)


def test_a_passphrase_does_no_harm_to_a_key_without_one(tmp_path: Path) -> None:
    load_signing_key(openssl_key(tmp_path / "key.pem", kind="P-256"), "not needed")
    load_signing_key(ssh_key(tmp_path / "key"), "not needed")


def test_the_public_half_is_no_signing_key(tmp_path: Path) -> None:
    for path in (openssl_key(tmp_path / "a.pem", kind="P-256"), ssh_key(tmp_path / "b")):
        with pytest.raises(InputError, match="is a public key"):
            load_signing_key(path.with_suffix(".pub"))


class TestSettings:
    def test_the_passphrase_comes_by_the_variable_only(self, tmp_path: Path) -> None:
        openssl_key(tmp_path / "key.pem", kind="P-256", passphrase="right")
        (tmp_path / "modelctl.yaml").write_text("signing: {key: key.pem}\n")
        workspace = load_workspace(tmp_path, environ={PASSPHRASE: "right"})
        assert load_signer(workspace).key_id.startswith("SHA256:")
        assert all(item.shown == "********" for item in workspace.origins if item.key == "signing.passphrase")
        (tmp_path / "modelctl.yaml").write_text("signing: {key: key.pem, passphrase: right}\n")
        with pytest.raises(InputError, match=r"signing\.passphrase.*is a secret"):
            load_workspace(tmp_path, environ={})

    def test_the_model_is_signed_by_an_ecdsa_key_or_not_at_all(self, tmp_path: Path) -> None:
        ssh_key(tmp_path / "ed")
        ssh_key(tmp_path / "ec", kind="ecdsa")
        for text, wanted in (
            ("{key: ed}", None),
            ("{key: ec}", fingerprint(tmp_path / "ec")),
            ("{key: ed, model_key: ec}", fingerprint(tmp_path / "ec")),
        ):
            (tmp_path / "modelctl.yaml").write_text(f"signing: {text}\n")
            signer = load_model_signer(load_workspace(tmp_path, environ={}))
            assert (signer and signer.key_id) == wanted
        (tmp_path / "modelctl.yaml").write_text("signing: {key: ec, model_key: ed}\n")
        with pytest.raises(InputError, match=r"signing\.model_key: .*is Ed25519, wanted ECDSA"):
            load_model_signer(load_workspace(tmp_path, environ={}))
