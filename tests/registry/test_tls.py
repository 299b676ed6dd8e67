"""TLS to a real server: the certificate is verified, by the authority that the settings name."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from modelctl.model.s3_faults import StoreError
from modelctl.registry.sending import PART_BYTES
from modelctl.registry.store import ObjectStore
from modelctl.services.process import Running, running
from modelctl.services.s3 import s3_server
from modelctl.settings import Store
from tests.support.publication import propose
from tests.support.s3_servers import ACCESS_KEY, SECRET_KEY

pytestmark = pytest.mark.services
KEYS = {"MINIO_ACCESS_KEY": ACCESS_KEY, "MINIO_SECRET_KEY": SECRET_KEY}


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "store.example.org")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Running, Path]]:
    """rclone's server with TLS, and the file of its authority."""
    certificate, key = self_signed(tmp_path)
    service = s3_server(tmp_path / "s3", access_key=ACCESS_KEY, secret_key=SECRET_KEY)
    address = service.address.replace("http://", "https://")
    context = ssl.create_default_context(cafile=str(certificate))

    def answers() -> bool:
        try:
            urllib.request.urlopen(address, timeout=2, context=context)
        except urllib.error.HTTPError:  # refused without a signature: it is there
            return True
        except OSError:
            return False
        return True

    argv = (*service.argv, "--cert", str(certificate), "--key", str(key))
    with running(replace(service, argv=argv, address=address, ready=answers)) as found:
        yield found, certificate


def test_a_release_is_published_over_tls(server: tuple[Running, Path], tmp_path: Path) -> None:
    running_server, certificate = server
    settings = Store(endpoint=running_server.address, ca_file=certificate)
    store = ObjectStore.open(settings, environ=KEYS)
    files = {"config.json": b"{}\n", "model.safetensors": bytes(PART_BYTES) + b"rest"}
    proposal = propose(tmp_path / "repository", files=files)
    proposal.publish(store)
    assert store.read("tiny/1.0.0/model.safetensors") == files["model.safetensors"]


def test_an_unknown_authority_is_refused(server: tuple[Running, Path]) -> None:
    store = ObjectStore.open(Store(endpoint=server[0].address), environ=KEYS)
    with pytest.raises(StoreError, match="no trusted TLS connection") as caught:
        store.exists()
    assert "store.ca_file" in str(caught.value.remedy)
