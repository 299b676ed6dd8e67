"""Credentials are found by their shape, with their line; the examples are put together here and open nothing."""

from __future__ import annotations

import pytest

from modelctl.scan.credentials import credentials


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"-----BEGIN " + b"OPENSSH PRIVATE KEY-----\n" + b"b3BlbnNzaC1rZXk" * 8, "a private key"),
        (b"-----BEGIN " + b"PRIVATE KEY-----\n" + b"MIIEvQIBADANBgk" * 8, "a private key"),
        (b"token = 'hf_" + b"Ab" * 17 + b"'", "a Hugging Face token"),
        (b"ghp_" + b"a1" * 18, "a GitHub token"),
        (b'"AKIA' + b"A1B2" * 4 + b'"', "an AWS access key"),
        (b"AIza" + b"a" * 35, "a Google API key"),
        (b"xoxb-123456789-" + b"a" * 12, "a Slack token"),
        (b"sk-" + b"a1" * 24, "an OpenAI key"),
    ],
)
def test_a_credential_is_found_with_its_line(content: bytes, kind: str) -> None:
    assert list(credentials(b"first\n\n" + content + b"\n")) == [(kind, 3)]


@pytest.mark.parametrize(
    "content",
    [b"hf_model", b"AKIA", b"sk-learn", b"-----BEGIN PUBLIC KEY-----", b"task-" + b"a" * 50, b"xAKIA" + b"A" * 16],
)
def test_other_words_are_left_alone(content: bytes) -> None:
    assert list(credentials(content)) == []
