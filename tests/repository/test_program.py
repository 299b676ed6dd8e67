"""Which modelctl a team's workflows install: only what can't move."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from modelctl.errors import InputError
from modelctl.repository.plan import Plan, signer_line
from modelctl.repository.program import parse_program, web_address

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("modelctl==1.2.3", "== 1.2.3"),
        (f"git+https://git.example.org/a/modelctl@{COMMIT}", f"@ git+https://git.example.org/a/modelctl@{COMMIT}"),
        (f"modelctl @ git+ssh://git@git.example.org/m@{COMMIT}", f"@ git+ssh://git@git.example.org/m@{COMMIT}"),
        ("https://x.example.org/m.whl#sha256=" + "ab" * 32, "@ https://x.example.org/m.whl#sha256=" + "ab" * 32),
    ],
)
def test_a_pinned_source(text: str, wanted: str) -> None:
    assert parse_program(text) == wanted


@pytest.mark.parametrize(
    "text", ["modelctl", "modelctl>=1", "git+https://git.example.org/m@main", "https://x.example.org/m.whl", "./m.whl"]
)
def test_what_can_move_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="can't move"):
        parse_program(text)


@pytest.mark.parametrize(
    ("remote", "wanted"),
    [
        ("git@git.example.org:a/m.git", "https://git.example.org/a/m.git"),
        ("https://git.example.org:8443/a/m.git", "https://git.example.org:8443/a/m.git"),
        ("ssh://git@git.example.org:22/a/m.git", "https://git.example.org/a/m.git"),
        ("https://me:secret@git.example.org/a/m.git", None),
        ("/srv/modelctl", None),
        ("file:///srv/modelctl", None),
    ],
)
def test_where_a_remote_is_on_the_web(remote: str, wanted: str | None) -> None:
    assert web_address(remote) == wanted


def test_a_public_key_without_a_comment_is_the_committers(tmp_path: Path) -> None:
    key = tmp_path / "key.pub"
    public = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    key.write_bytes(public + b"\n")
    assert signer_line(key, "ann@example.org").startswith("ann@example.org ssh-ed25519 AAAA")
    with pytest.raises(InputError, match="of nobody"):
        signer_line(key, None)
    key.write_text("ssh-rsa AAAA ann\n", encoding="utf-8")
    with pytest.raises(InputError, match="no public key that can sign here"):
        signer_line(key, None)


@pytest.mark.parametrize(
    ("owner", "team"), [("@acme/ML_Team", "ml-team"), ("ann@example.org", "ann"), (None, "models")]
)
def test_environments_carry_the_owners_name(owner: str | None, team: str) -> None:
    assert Plan(owner=owner).team == team
