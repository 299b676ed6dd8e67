"""`model.sig`: OpenSSF's own program takes it as its own, and refuses it for other bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from modelctl.admission.dsse import Envelope
from modelctl.admission.keys import KeySigner, KeyVerifier, load_signing_key
from modelctl.admission.model_signature import sign_model, verify_model
from modelctl.admission.signers import AllowedSigner
from modelctl.errors import InputError, RefusedError
from modelctl.model.tree import Tree, scan_tree
from tests.support.keys import openssl_key

FILES = {
    "config.json": b"{}\n",
    "a/b.json": b"1",
    "a-b.json": b"2",
    "a/größe 1.txt": b"",
    "model.safetensors": b"\0" * 5000,
    ".gitattributes": b"*.safetensors filter=lfs\n",
}


def folder(path: Path) -> Path:
    for name, content in FILES.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def signed(tmp_path: Path, kind: str = "P-256") -> tuple[Tree, bytes, Path]:
    """A tree, its signature and the private key's file."""
    key = openssl_key(tmp_path / "key.pem", kind=kind)
    tree = scan_tree(folder(tmp_path / "model"))
    return tree, sign_model(tree, "tiny@1.0.0", KeySigner(load_signing_key(key))), key


def by_their_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "model_signing", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def allowed(key: Path) -> list[AllowedSigner]:
    verifier = KeyVerifier(load_signing_key(key).public_key())
    return [AllowedSigner(principals=("ann",), verifier=verifier, key_id=verifier.key_id)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["P-256", "P-384", "P-521"])
def test_their_command_verifies_our_signature_and_refuses_other_bytes(tmp_path: Path, kind: str) -> None:
    tree, text, key = signed(tmp_path, kind)
    signature = tmp_path / "model.sig"
    signature.write_bytes(text)
    wanted = ("verify", "key", tree.root, "--signature", signature, "--public_key", key.with_suffix(".pub"))
    done = by_their_command(*wanted)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "succeeded" in done.stdout
    (tree.root / "model.safetensors").write_bytes(b"\0" * 4999 + b"\1")
    done = by_their_command(*wanted)
    assert done.returncode != 0
    assert "model.safetensors" in done.stdout + done.stderr


@pytest.mark.slow
def test_their_signature_is_taken_as_ours(tmp_path: Path) -> None:
    tree, ours, key = signed(tmp_path)
    signature = tmp_path / "theirs.sig"
    done = by_their_command("sign", "key", tree.root, "--signature", signature, "--private_key", key)
    assert done.returncode == 0, done.stdout + done.stderr
    theirs = signature.read_bytes()
    assert verify_model(theirs, tree, allowed(key), origin="theirs.sig").principals == ("ann",)
    said, mine = (json.loads(Envelope.from_json(text.decode(), origin="it").payload) for text in (theirs, ours))
    assert said["predicate"]["resources"] == mine["predicate"]["resources"]
    assert said["subject"][0]["digest"] == mine["subject"][0]["digest"]
    assert said["predicateType"] == mine["predicateType"]


def test_it_lists_every_file_but_gits_own_in_the_order_of_the_parts_of_a_path(tmp_path: Path) -> None:
    _, text, _ = signed(tmp_path)
    body = json.loads(Envelope.from_json(text.decode(), origin="it").payload)
    names = [item["name"] for item in body["predicate"]["resources"]]
    assert names == ["a/b.json", "a/größe 1.txt", "a-b.json", "config.json", "model.safetensors"]


class TestRefused:
    def test_other_files(self, tmp_path: Path) -> None:
        tree, text, key = signed(tmp_path)
        fewer = Tree(root=tree.root, files=tree.files[:-1])
        with pytest.raises(RefusedError, match="signed are other files"):
            verify_model(text, fewer, allowed(key), origin="model.sig")

    def test_a_stranger(self, tmp_path: Path) -> None:
        tree, text, _ = signed(tmp_path)
        with pytest.raises(RefusedError, match="no allowed key has signed it"):
            verify_model(text, tree, allowed(openssl_key(tmp_path / "other", kind="P-256")), origin="model.sig")

    def test_a_changed_statement(self, tmp_path: Path) -> None:
        tree, text, key = signed(tmp_path)
        body = json.loads(text)
        envelope = Envelope.from_json(text.decode(), origin="it")
        changed = replace(envelope, payload=envelope.payload.replace(b"config", b"c0nfig"), bundle=None)
        body["dsseEnvelope"] = changed.as_plain()
        with pytest.raises(RefusedError, match="no allowed key"):
            verify_model(json.dumps(body).encode(), tree, allowed(key), origin="model.sig")

    @pytest.mark.parametrize("payload", [b"{}", b"[]", b'{"_type": "x", "predicateType": "y", "predicate": 1}'])
    def test_a_signed_something_else(self, tmp_path: Path, payload: bytes) -> None:
        tree, _, key = signed(tmp_path)
        other = KeySigner(load_signing_key(key)).seal(payload)
        with pytest.raises(RefusedError, match="signed, but no model signature"):
            verify_model(other.to_json().encode(), tree, allowed(key), origin="model.sig")

    def test_an_ed25519_key(self, tmp_path: Path) -> None:
        key = openssl_key(tmp_path / "key.pem", kind="ed25519")
        with pytest.raises(InputError, match="ECDSA") as caught:
            sign_model(scan_tree(folder(tmp_path / "model")), "x", KeySigner(load_signing_key(key)))
        assert "signing.model_key" in str(caught.value.remedy)

    def test_what_is_no_bundle(self, tmp_path: Path) -> None:
        tree, _, key = signed(tmp_path)
        with pytest.raises(RefusedError, match="not a DSSE envelope"):
            verify_model(b"\xff", tree, allowed(key), origin="model.sig")
