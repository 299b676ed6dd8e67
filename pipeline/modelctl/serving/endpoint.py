"""Where a serving engine is reached, and what it said of itself.

An engine that we start listens on a unix socket in a folder of its own, so that it needs no network at all; a given
URL is driven over TCP. Only OpenAI-compatible HTTP is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A reachable engine."""

    base_url: str
    """`http(s)://host:port` without a path; the host is a placeholder when `socket` is set."""
    model: str
    """The name to send in requests."""
    max_model_len: int | None
    """Longest prompt plus answer in tokens, as the engine says; None when it does not say."""
    socket: Path | None = None
    version: str | None = None
    api_key: str | None = field(default=None, repr=False)
    """Sent as a bearer token with every request; never shown or written down."""
    managed: bool = False
    """Started by us: its flags are ours, its restarts are seen, its log is kept."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """For a managed engine: every flag it was started with."""
    log: Path | None = None
    pid: int | None = None
