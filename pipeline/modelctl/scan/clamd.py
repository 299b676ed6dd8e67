"""A clamd that can be trusted: only a literal OK counts as clean."""

from __future__ import annotations


class Clamd:
    """One clamd, at a unix socket's path or `host:port`."""

    def __init__(self, address: str) -> None:
        self.address = address
