"""What a verification says: claims that contradict each other, and claims that nobody could check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Violation:
    """Two claims that can't both be true."""

    rule: str
    """`audit.<rule>`, stable."""
    message: str
    """What was found, and what is wanted."""
    remedy: str
    commit: str | None
    """The commit that made the claim false, or that made the claim."""
    path: str | None = None
    release: str | None = None
    environment: str | None = None

    def as_json(self) -> Mapping[str, str | None]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Unverified:
    """A claim that could not be checked: never the same as a claim that holds."""

    reason: str
    remedy: str
    release: str | None = None


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Everything that one run of `verify` saw at `head`."""

    head: str
    releases: int
    """Published releases looked at."""
    deployments: int
    """Deployed releases looked at, over all environments."""
    signatures: int
    """Attestations whose signature was verified, now or in an earlier run."""
    violations: tuple[Violation, ...]
    unverified: tuple[Unverified, ...]
    recalled: int = 0
    """Releases of which an earlier run in this clone found that all of the same objects agree."""
    bucket: bool = False
    """Whether the bucket was held against git."""
    notes: tuple[str, ...] = ()
    """What a reader should know, one sentence each."""

    @property
    def exit_code(self) -> int:
        """0 everything agrees, 1 something contradicts, 3 something could not be checked."""
        return 1 if self.violations else 3 if self.unverified else 0
