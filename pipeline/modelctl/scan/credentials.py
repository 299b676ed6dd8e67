"""Credentials that somebody left in a file: private keys and the tokens of services. What was found is never
repeated."""

from __future__ import annotations

import re
from collections.abc import Iterator

_KINDS: tuple[tuple[str, bytes], ...] = (
    ("a private key", rb"-----BEGIN (?:[A-Z0-9]+ ){0,2}PRIVATE KEY(?: BLOCK)?-----\s+[A-Za-z0-9+/=:\s,-]{64}"),
    ("a Hugging Face token", rb"hf_[A-Za-z]{34}(?![A-Za-z0-9])"),
    ("a GitHub token", rb"gh[pousr]_[A-Za-z0-9]{36}"),
    ("a GitHub token", rb"github_pat_[A-Za-z0-9_]{60,}"),
    ("an AWS access key", rb"A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("a Google API key", rb"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    ("a Slack token", rb"xox[abprs]-[0-9]{8,}-[A-Za-z0-9-]{10,}"),
    ("an OpenAI key", rb"sk-[A-Za-z0-9_-]{40,}"),
    ("a Weights & Biases key", rb"WANDB_API_KEY\s*[=:]\s*[\"']?[0-9a-f]{40}"),
)
_PATTERNS = [(kind, re.compile(pattern)) for kind, pattern in _KINDS]
_WORD = re.compile(rb"[A-Za-z0-9_]")


def credentials(content: bytes) -> Iterator[tuple[str, int]]:
    """(kind, line from 1) of every credential in a file's content."""
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(content):
            # looked at here, since a pattern that begins with plain letters is searched for many times faster
            if not _WORD.match(content[max(0, match.start() - 1) : match.start()]):
                yield kind, content.count(b"\n", 0, match.start()) + 1
