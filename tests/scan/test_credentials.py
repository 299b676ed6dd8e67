"""Credentials are found by their shape, with their line; the examples are put together here and open nothing."""

from __future__ import annotations

import pytest

from modelctl.scan.credentials import credentials

LETTERS = b"kQzVbTmWcXjRyLpNsGdHfJaEuCvBnMqZrTgKwPxD"
SIGNS = b"k7Qz2VbT9mWc4XjR1yLp8NsG3dHf6JaE5uCv0BnMqZrT" * 4
HEX = b"9f3c1b7e4d8a2056" * 4
CAPITALS = b"K3QZ7VBT2MWCXJRY"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"-----BEGIN " + b"OPENSSH PRIVATE KEY-----\n" + SIGNS, "a private key"),
        (b"-----BEGIN " + b"PRIVATE KEY-----\n" + SIGNS, "a private key"),
        (b'"private_key": "-----BEGIN ' + b"PRIVATE KEY-----\\n" + SIGNS[:64] + b"\\n" + SIGNS, "a private key"),
        (b"token = 'hf_" + LETTERS[:34] + b"'", "a Hugging Face token"),
        (b"ghp_" + SIGNS[:36], "a GitHub token"),
        (b"glpat-" + SIGNS[:20], "a GitLab token"),
        (b'"AKIA' + CAPITALS + b'"', "an AWS access key"),
        (b"aws_secret_access_key = " + SIGNS[:20] + b"/" + SIGNS[20:39], "an AWS secret key"),
        (b"AIza" + SIGNS[:35], "a Google API key"),
        (b"xoxb-907182635-" + SIGNS[:12], "a Slack token"),
        (b"sk-" + SIGNS[:48], "an OpenAI key"),
        (b"sk-ant-api03-" + SIGNS[:90], "an Anthropic key"),
        (b"npm_" + SIGNS[:36], "an npm token"),
        (b"WANDB_API_KEY=" + HEX[:40], "a Weights & Biases key"),
        (b"url = https://me:" + SIGNS[:20] + b"@git.example.com/x", "a password in a URL"),
    ],
)
def test_a_credential_is_found_with_its_line(content: bytes, kind: str) -> None:
    assert list(credentials(b"first\n\n" + content + b"\n")) == [(kind, 3)]


@pytest.mark.parametrize(
    "content",
    [
        b"hf_model",
        b"AKIA",
        b"sk-learn",
        b"-----BEGIN PUBLIC KEY-----" + SIGNS,
        b"task-" + SIGNS[:50],
        b"xAKIA" + CAPITALS,
        b"hf_" + b"x" * 34,
        b"hf_" + b"X" * 34,
        b"hf_" + b"abcdefghijklmnopqrstuvwxyzABCDEFGH",
        b"hf_YourAccessTokenGoesRightHereOkayyyy",
        b"sk-" + b"your-api-key-goes-here-" * 3,
        b"sk-" + b"0" * 48,
        b"AKIAIOSFODNN7" + b"EXAMPLE",
        b"aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + b"EXAMPLEKEY",
        b"ghp_" + b"a1" * 18,
        b"https://user:your-password-here@example.com",
        b"https://example.com:8080/path@1.0.0",
        b"-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        b"-----BEGIN PRIVATE KEY-----\n" + b"x" * 100,
    ],
)
def test_other_words_and_placeholders_are_left_alone(content: bytes) -> None:
    assert list(credentials(content)) == []
