"""Credentials that somebody left in a file: private keys and the tokens of services. What was found is never
repeated."""

from __future__ import annotations

import re
from collections.abc import Iterator

_KINDS: dict[str, re.Pattern[bytes]] = {
    "a private key": re.compile(
        rb"-----BEGIN (?:[A-Z0-9]+ ){0,2}PRIVATE KEY(?: BLOCK)?-----\s+[A-Za-z0-9+/=:\s,-]{64}"
    ),
    "a Hugging Face token": re.compile(rb"(?<![A-Za-z0-9_])hf_[A-Za-z]{34}(?![A-Za-z0-9])"),
    "a GitHub token": re.compile(rb"(?<![A-Za-z0-9_])(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60,})"),
    "an AWS access key": re.compile(rb"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    "a Google API key": re.compile(rb"(?<![A-Za-z0-9_-])AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    "a Slack token": re.compile(rb"(?<![A-Za-z0-9])xox[abprs]-[0-9]{8,}-[A-Za-z0-9-]{10,}"),
    "an OpenAI key": re.compile(rb"(?<![A-Za-z0-9_-])sk-(?:proj-)?[A-Za-z0-9_-]{40,}"),
    "a Weights & Biases key": re.compile(rb"WANDB_API_KEY\s*[=:]\s*[\"']?[0-9a-f]{40}"),
}


def credentials(content: bytes) -> Iterator[tuple[str, int]]:
    """(kind, line from 1) of every credential in a file's content."""
    for kind, pattern in _KINDS.items():
        for match in pattern.finditer(content):
            yield kind, content.count(b"\n", 0, match.start()) + 1
