"""Credentials that somebody left in a file: private keys and the tokens of services, known by their exact shapes.

Model cards are full of examples such as `hf_xxxxxxxx`. What is put in their place is made of few letters, a row of the
alphabet or a telling word, and what a service makes is none of these. Shapes are those that the services publish for
secret scanning. A credential is never repeated.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

_KINDS: tuple[tuple[str, bytes], ...] = (
    ("a Hugging Face token", rb"hf_[A-Za-z]{34}(?![A-Za-z0-9])"),
    ("a Hugging Face organisation token", rb"api_org_[A-Za-z]{34}(?![A-Za-z0-9])"),
    ("a GitHub token", rb"gh[pousr]_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    ("a GitHub token", rb"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("a GitLab token", rb"glpat-[A-Za-z0-9_-]{20,}"),
    ("an AWS access key", rb"A(?:KIA|SIA)[A-Z2-7]{16}(?![A-Za-z0-9])"),
    (
        "an AWS secret key",
        rb"(?i:aws_secret_access_key)[\"']?\s{0,4}[=:]\s{0,4}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    ("a Google API key", rb"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    ("a Google OAuth secret", rb"GOCSPX-[A-Za-z0-9_-]{28}(?![A-Za-z0-9_-])"),
    ("a Slack token", rb"xox[abeprs]-[0-9]{8,}-[A-Za-z0-9-]{10,}"),
    ("a Slack webhook", rb"hooks\.slack\.com/services/T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{24}"),
    ("a Discord webhook", rb"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,}"),
    ("an Anthropic key", rb"sk-ant-[a-z0-9]{3,8}-[A-Za-z0-9_-]{80,}"),
    ("an OpenAI key", rb"sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{40,}"),
    ("an OpenRouter key", rb"sk-or-v1-[0-9a-f]{64}"),
    ("a Stripe key", rb"[sr]k_live_[A-Za-z0-9]{24,}"),
    ("a Replicate token", rb"r8_[A-Za-z0-9]{37}(?![A-Za-z0-9])"),
    ("a Groq key", rb"gsk_[A-Za-z0-9]{52}(?![A-Za-z0-9])"),
    ("an NVIDIA key", rb"nvapi-[A-Za-z0-9_-]{64}(?![A-Za-z0-9_-])"),
    ("an xAI key", rb"xai-[A-Za-z0-9]{80}(?![A-Za-z0-9])"),
    ("a PyPI token", rb"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}"),
    ("an npm token", rb"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    ("a Docker token", rb"dckr_pat_[A-Za-z0-9_-]{27}(?![A-Za-z0-9_-])"),
    ("a DigitalOcean token", rb"do[op]_v1_[0-9a-f]{64}"),
    ("a Databricks token", rb"dapi[0-9a-f]{32}(?![0-9a-f])"),
    ("a SendGrid key", rb"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    ("a Telegram token", rb"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    ("an Azure storage key", rb"AccountKey=([A-Za-z0-9+/]{86})=="),
    ("a Weights & Biases key", rb"(?i:wandb_api_key)[\"']?\s{0,4}[=:]\s{0,4}[\"']?([0-9a-f]{40})(?![0-9a-f])"),
    ("a Weights & Biases key", rb"machine\s+api\.wandb\.ai\s+login\s+\w+\s+password\s+([0-9a-f]{40})"),
    ("a password in a URL", rb"https?://[A-Za-z0-9._-]{1,64}:([A-Za-z0-9._~!$&*+=%-]{12,})@[A-Za-z0-9.-]+\.[a-z]{2,}"),
)
_PATTERNS = [(kind, re.compile(pattern)) for kind, pattern in _KINDS]
_PRIVATE_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ ){0,2}PRIVATE KEY(?: BLOCK)?-----(?:\\n|\\r|\s)+((?:[A-Za-z0-9+/=:,\s-]|\\n|\\r){64,})"
)
"""A group marks the part that differs from one credential to the next; without one it is the whole match."""
_WORD = re.compile(rb"[A-Za-z0-9_]")
_PLACEHOLDER = re.compile(
    rb"example|your|token|secret|password|placeholder|changeme|redacted|replace|insert|dummy|sample|xxxx|\*{3}|\.{3}"
    rb"|abcdefgh|12345678|qwerty|fake|testtest|notreal",
    re.IGNORECASE,
)
_MIN_BITS = 2.0
"""Shannon entropy in bits a character below which a text is a pattern: 34 random letters have about 4.3, twelve signs
of a password 3.6 at most, rows of `x` or `AB` 0 to 1.6."""


def credentials(content: bytes) -> Iterator[tuple[str, int]]:
    """(kind, line from 1) of every credential in a file's content; one for each place."""
    told: set[int] = set()
    for match in _PRIVATE_KEY.finditer(content):
        if _is_random(re.sub(rb"\\[nr]|\s|-", b"", match[1])[:400]):
            yield "a private key", _line(content, match.start())
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(content):
            # looked at here, since a pattern that begins with plain letters is searched for many times faster
            before = content[max(0, match.start() - 1) : match.start()]
            if _WORD.match(before) or match.start() in told or not _is_random(match[match.lastindex or 0]):
                continue
            told.add(match.start())
            yield kind, _line(content, match.start())


def _is_random(text: bytes) -> bool:
    if _PLACEHOLDER.search(text):
        return False
    counts = Counter(text)
    entropy = -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values())
    return entropy >= _MIN_BITS


def _line(content: bytes, position: int) -> int:
    return content.count(b"\n", 0, position) + 1
