"""A sigstore of the test's own: its certificate authority and its log as small servers, for sigstore's real client.

Fulcio's and Rekor's APIs as sigstore-python speaks them (v2 `signingCert`, v1 `log/entries`), with certificates, signed
certificate timestamps, inclusion proofs and checkpoints that its verifier takes: nothing of the client is replaced.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from tests.support.http_server import QuietHandler, served

IDENTITY = "https://example.org/org/models/.github/workflows/publish.yml@refs/heads/main"
ISSUER = "https://issuer.example.org"
_ISSUER_V1, _ISSUER_V2 = ObjectIdentifier("1.3.6.1.4.1.57264.1.1"), ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_SCTS = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_YEARS = timedelta(days=3650)


def token(identity: str = IDENTITY, issuer: str = ISSUER, *, lives_s: float = 600) -> str:
    """An OIDC token; nobody but Fulcio checks its signature, and this one does not."""
    now = int(time.time())
    claims = {"iss": issuer, "sub": identity, "aud": "sigstore", "iat": now - 1000, "exp": int(now + lives_s)}
    return jwt.encode(claims, "a secret of the issuer's, which is long enough", algorithm="HS256")


@dataclass
class Sigstore:
    """Keys and state; set `broken` to an HTTP status and the log takes nothing more."""

    authority: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    transparency: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    log: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    url: str = ""
    broken: int | None = None
    entries: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        now = datetime.now(UTC)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test's authority")])
        public = self.authority.public_key()
        usage = {"digital_signature": False, "content_commitment": False, "key_encipherment": False}
        usage |= {"data_encipherment": False, "key_agreement": False, "encipher_only": False, "decipher_only": False}
        self.root = (
            x509.CertificateBuilder()
            .subject_name(name).issuer_name(name).public_key(public).serial_number(1)
            .not_valid_before(now - timedelta(days=1)).not_valid_after(now + _YEARS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self.authority, hashes.SHA256())
        )  # fmt: skip

    def trusted_root(self) -> dict[str, Any]:
        """What its verifiers go by."""
        start = (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        certificates = [{"rawBytes": _b64(self.root.public_bytes(Encoding.DER))}]
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [_instance(self.log, self.url, start)],
            "ctlogs": [_instance(self.transparency, self.url, start)],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "tests", "commonName": "a test's authority"},
                    "uri": self.url,
                    "certChain": {"certificates": certificates},
                    "validFor": {"start": start},
                }
            ],
            "timestampAuthorities": [],
        }

    def trust_config(self) -> dict[str, Any]:
        """What its clients sign by."""
        start = (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        service = {"url": self.url, "majorApiVersion": 1, "validFor": {"start": start}, "operator": "tests"}
        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self.trusted_root(),
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": [service],
                "oidcUrls": [service],
                "rekorTlogUrls": [service],
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaUrls": [],
                "tsaConfig": {"selector": "ANY"},
            },
        }

    def certify(self, request: x509.CertificateSigningRequest, identity: str, issuer: str) -> x509.Certificate:
        """A certificate for ten minutes, with a timestamp of the transparency log in it."""
        now = datetime.now(UTC) - timedelta(seconds=5)
        name = x509.UniformResourceIdentifier if "://" in identity else x509.RFC822Name
        v2 = issuer.encode()
        usage = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "key_cert_sign",
             "crl_sign", "encipher_only", "decipher_only"), False
        )  # fmt: skip
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([])).issuer_name(self.root.subject).public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now).not_valid_after(now + timedelta(minutes=10))
            .add_extension(x509.KeyUsage(digital_signature=True, **usage), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority.public_key()), critical=False
            )
            .add_extension(x509.SubjectAlternativeName([name(identity)]), critical=True)
            .add_extension(x509.UnrecognizedExtension(_ISSUER_V1, issuer.encode()), critical=False)
            .add_extension(x509.UnrecognizedExtension(_ISSUER_V2, bytes((0x0C, len(v2))) + v2), critical=False)
        )  # fmt: skip
        before = builder.sign(self.authority, hashes.SHA256()).tbs_certificate_bytes
        timestamps = _timestamps(self.transparency, self.authority, before)
        return builder.add_extension(x509.UnrecognizedExtension(_SCTS, timestamps), critical=False).sign(
            self.authority, hashes.SHA256()
        )

    def enter(self, proposed: dict[str, Any]) -> dict[str, Any]:
        """The log's entry for a DSSE envelope, with its proof of inclusion."""
        content = proposed["spec"]["proposedContent"]
        envelope = json.loads(content["envelope"])
        (signature,) = envelope["signatures"]
        (verifier,) = content["verifiers"]
        payload = base64.b64decode(envelope["payload"])
        spec = {
            "envelopeHash": {"algorithm": "sha256", "value": hashlib.sha256(content["envelope"].encode()).hexdigest()},
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
            "signatures": [{"signature": signature["sig"], "verifier": verifier}],
        }
        body = json.dumps({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec}, sort_keys=True, separators=(",", ":"))
        # a tree of two leaves, whose other one is older
        leaf, other = (hashlib.sha256(b"\0" + text).digest() for text in (body.encode(), b"an older entry"))
        root = hashlib.sha256(b"\1" + other + leaf).digest()
        self.entries.append(body.encode())
        id_ = _key_id(self.log)
        at = int(time.time())
        promised = {"body": _b64(body.encode()), "integratedTime": at, "logID": id_.hex(), "logIndex": 41}
        set_ = self.log.sign(
            json.dumps(promised, sort_keys=True, separators=(",", ":")).encode(), ec.ECDSA(hashes.SHA256())
        )
        note = f"tests - 1\n2\n{_b64(root)}\n"
        signed = id_[:4] + self.log.sign(note.encode(), ec.ECDSA(hashes.SHA256()))
        proof = {"logIndex": 1, "treeSize": 2, "rootHash": root.hex(), "hashes": [other.hex()]}
        proof["checkpoint"] = f"{note}\n— tests {_b64(signed)}\n"
        return {"24" * 40: {**promised, "verification": {"inclusionProof": proof, "signedEntryTimestamp": _b64(set_)}}}


@contextmanager
def sigstore() -> Iterator[Sigstore]:
    """One that answers for the time of a `with` block."""
    state = Sigstore()

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 - the name of http.server
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if state.broken is not None:
                self._answer(state.broken, {"message": "out of order"})
            elif self.path == "/api/v2/signingCert":
                raw = self.headers["Authorization"].removeprefix("Bearer ")
                claims = jwt.decode(raw, options={"verify_signature": False})
                request = x509.load_pem_x509_csr(base64.b64decode(body["certificateSigningRequest"]))
                chain = [state.certify(request, claims["sub"], claims["iss"]), state.root]
                texts = [item.public_bytes(Encoding.PEM).decode() for item in chain]
                self._answer(200, {"signedCertificateEmbeddedSct": {"chain": {"certificates": texts}}})
            elif self.path == "/api/v1/log/entries":
                self._answer(201, state.enter(body))
            else:
                self._answer(404, {"message": self.path})

        def do_GET(self) -> None:  # noqa: N802 - the same
            places = {"authorization_endpoint": f"{state.url}/authorize", "token_endpoint": f"{state.url}/token"}
            self._answer(200 if self.path == "/.well-known/openid-configuration" else 404, places)

        def _answer(self, status: int, body: object) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with served(Handler) as url:
        state.url = url
        yield state


def _timestamps(log: ec.EllipticCurvePrivateKey, issuer: ec.EllipticCurvePrivateKey, certificate: bytes) -> bytes:
    """The extension's value (RFC 6962, 3.3): an octet string with a list of one timestamp, for a precertificate."""
    at = int(time.time() * 1000)
    entry = _key_id(issuer) + len(certificate).to_bytes(3, "big") + certificate
    signature = log.sign(struct.pack("!BBQH", 0, 0, at, 1) + entry + struct.pack("!H", 0), ec.ECDSA(hashes.SHA256()))
    one = struct.pack("!B32sQH", 0, _key_id(log), at, 0) + struct.pack("!BBH", 4, 3, len(signature)) + signature
    listed = struct.pack("!HH", len(one) + 2, len(one)) + one
    return bytes((0x04, *((len(listed),) if len(listed) < 128 else (0x81, len(listed))))) + listed


def _instance(key: ec.EllipticCurvePrivateKey, url: str, start: str) -> dict[str, Any]:
    public = {"rawBytes": _b64(_der(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": {"start": start}}
    return {"baseUrl": url, "hashAlgorithm": "SHA2_256", "publicKey": public, "logId": {"keyId": _b64(_key_id(key))}}


def _der(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _key_id(key: ec.EllipticCurvePrivateKey) -> bytes:
    return hashlib.sha256(_der(key)).digest()


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()
