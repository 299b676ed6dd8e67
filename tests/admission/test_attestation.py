"""Attestations: what was signed is what is read, and every other byte, key or contradiction is refused."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelctl.admission.attestation import sign, verify
from modelctl.admission.dsse import PAYLOAD_TYPE, Envelope, pre_authentication_encoding
from modelctl.admission.keys import KeySigner, KeyVerifier, load_signing_key
from modelctl.errors import InputError, RefusedError
from modelctl.model.tree import FileEntry, Tree
from tests.support.keys import fingerprint, ssh_key
from tests.support.reports import a_report

TREE = Tree(
    root=Path(),
    files=(
        FileEntry(path="config.json", size_bytes=2, sha256=hashlib.sha256(b"{}").hexdigest()),
        FileEntry(path="größe/w 1.safetensors", size_bytes=0, sha256=hashlib.sha256(b"").hexdigest()),
    ),
)
REPORT = a_report(served_digest=TREE.digest)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ssh_key(tmp_path_factory.mktemp("keys") / "key")


def verifier(path: Path) -> KeyVerifier:
    return KeyVerifier(load_signing_key(path).public_key())


@pytest.fixture
def envelope(key: Path) -> Envelope:
    return sign(REPORT, TREE, KeySigner(load_signing_key(key)))


def resigned(key: Path, change: Callable[[dict[str, Any]], None], envelope: Envelope) -> Envelope:
    """What the holder of the key could sign: the statement, changed."""
    body = json.loads(envelope.payload)
    change(body)
    payload = json.dumps(body).encode()
    signature = KeySigner(load_signing_key(key)).sign(pre_authentication_encoding(PAYLOAD_TYPE, payload))
    return replace(envelope, payload=payload, signatures=(("x", signature),))


def test_a_statement_survives_the_file(key: Path, envelope: Envelope) -> None:
    again = Envelope.from_json(envelope.to_json(), origin="it")
    assert again == envelope
    assert again.to_json() == envelope.to_json()
    statement = verify(again, [verifier(key)])
    assert statement.report == REPORT
    assert statement.served.files == TREE.files
    assert statement.signed_by == (fingerprint(key), fingerprint(key))
    assert statement.signed_by.identity is None


def test_the_statement_is_in_toto_v1_about_every_served_file(envelope: Envelope) -> None:
    body = json.loads(envelope.payload)
    assert body["_type"] == "https://in-toto.io/Statement/v1"
    assert body["predicateType"] == "https://modelctl.dev/admission/v1"
    assert {item["name"]: item["digest"]["sha256"] for item in body["subject"]} == {
        entry.path: entry.sha256 for entry in TREE.files
    }
    assert body["predicate"]["served"]["tree_digest"] == TREE.digest
    assert body["predicate"]["report"]["verdict"] == "admitted"
    assert body["predicate"]["release"] == "tiny@1.0.0"


def test_the_encoding_that_is_signed_has_lengths_in_bytes() -> None:
    assert pre_authentication_encoding("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert pre_authentication_encoding("ö", "ä".encode()) == "DSSEv1 2 ö 2 ä".encode()


def test_openssl_verifies_the_signature_without_us(key: Path, envelope: Envelope, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = load_signing_key(key).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "public.pem").write_bytes(public)
    body = json.loads(envelope.to_json())
    payload = base64.b64decode(body["payload"])
    signed = b"DSSEv1 %d %b %d %b" % (len(body["payloadType"]), body["payloadType"].encode(), len(payload), payload)
    (tmp_path / "signed").write_bytes(signed)
    (tmp_path / "signature").write_bytes(base64.b64decode(body["signatures"][0]["sig"]))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "public.pem", "-rawin"]
    done = subprocess.run(
        [*command, "-in", "signed", "-sigfile", "signature"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


class TestRefused:
    def test_a_changed_payload(self, key: Path, envelope: Envelope) -> None:
        public = verifier(key)
        for position in range(0, len(envelope.payload), 97):
            flipped = bytearray(envelope.payload)
            flipped[position] ^= 1
            with pytest.raises(RefusedError, match="no allowed key"):
                verify(replace(envelope, payload=bytes(flipped)), [public])

    def test_another_payload_type(self, key: Path, envelope: Envelope) -> None:
        with pytest.raises(RefusedError, match="no allowed key"):
            verify(replace(envelope, payload_type="text/plain"), [verifier(key)])

    def test_another_key_even_under_the_right_id(self, key: Path, envelope: Envelope, tmp_path: Path) -> None:
        other = verifier(ssh_key(tmp_path / "other"))
        with pytest.raises(RefusedError, match="no allowed key") as caught:
            verify(envelope, [other])
        assert fingerprint(key) in caught.value.message
        assert "policies/allowed_signers" in str(caught.value.remedy)

    def test_no_keys_and_no_signatures(self, key: Path, envelope: Envelope) -> None:
        with pytest.raises(RefusedError):
            verify(envelope, [])
        with pytest.raises(RefusedError, match="nobody"):
            verify(replace(envelope, signatures=()), [verifier(key)])

    def test_a_second_signature_of_a_stranger_does_no_harm(self, key: Path, envelope: Envelope) -> None:
        both = replace(envelope, signatures=(("stranger", b"\0" * 64), *envelope.signatures))
        assert verify(both, [verifier(key)]).signed_by.key_id == fingerprint(key)

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda body: body["subject"].pop(), "contradicts itself"),
            (lambda body: body["subject"].append(body["subject"][0]), "comes twice"),
            (lambda body: body["subject"][0]["digest"].update(sha256="00" * 32), "contradicts itself"),
            (lambda body: body["predicate"]["served"]["files"][0].update(size_bytes=3), "contradicts itself"),
            (lambda body: body["predicate"]["report"]["model"].update(served_digest=None), "contradicts itself"),
            (lambda body: body.update(predicateType="https://slsa.dev/provenance/v1"), "slsa"),
            (lambda body: body.update(_type="https://in-toto.io/Statement/v0.1"), "wanted"),
            (lambda body: body.pop("predicate"), "no admission statement"),
            (lambda body: body["predicate"]["report"].update(verdict="fine"), "no admission statement"),
            (lambda body: body["predicate"]["served"]["files"].append("x"), "no admission statement"),
        ],
    )
    def test_a_signed_contradiction(
        self, key: Path, envelope: Envelope, change: Callable[[dict[str, Any]], None], reason: str
    ) -> None:
        with pytest.raises(RefusedError, match=reason):
            verify(resigned(key, change, envelope), [verifier(key)])

    def test_signing_a_report_of_another_tree(self, key: Path) -> None:
        with pytest.raises(RefusedError, match="the report is of"):
            sign(a_report(), TREE, KeySigner(load_signing_key(key)))

    @pytest.mark.parametrize(
        "text",
        ["", "[]", "{}", "null", '{"payload": "!", "payloadType": "t", "signatures": []}',
         '{"payload": "", "payloadType": "t", "signatures": [1]}', "[" * 100_000],
    )  # fmt: skip
    def test_what_is_no_envelope(self, text: str) -> None:
        with pytest.raises(InputError, match="it: not a DSSE envelope"):
            Envelope.from_json(text, origin="it")
