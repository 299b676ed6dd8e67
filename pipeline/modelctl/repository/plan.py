"""What a team decides about its registry repository before it is laid down, each answer checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from modelctl.admission.signers import SIGNING_TYPES, parse_allowed_signers
from modelctl.documents import read_text
from modelctl.errors import InputError
from modelctl.model.s3_client import S3Client
from modelctl.rollout.values import DNS_LABEL

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_OWNER = re.compile(r"@[\w-]+(/[\w.-]+)?|[^@\s]+@[^@\s]+\.[^@\s]+")
_ADDRESS = re.compile(r"(https?|ssh)://[^\s/]+/\S+|[\w.-]+@[\w.-]+:\S+")
NAMESPACE = "models-"
"""What the namespaces of Argo CD's project begin with."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The answers. Raises `InputError` for one that nothing could use."""

    bucket: str = "models"
    endpoint: str | None = None
    """`http(s)://host:port` of the object store; None: the embedded one of a laptop."""
    region: str | None = None
    environments: tuple[str, ...] = ("prod",)
    owner: str | None = None
    """Who must approve changes of what decides: `@org/team`, `@person` or an address; None: still to be decided."""
    repository: str | None = None
    """The address that Argo CD reaches this repository at; None: still to be decided."""
    program: str | None = None
    """Which modelctl the workflows install, as `parse_program` gives it; None: still to be decided."""
    signers: tuple[str, ...] = ()
    """Lines of `policies/allowed_signers`."""

    def __post_init__(self) -> None:
        if not _BUCKET.fullmatch(self.bucket) or ".." in self.bucket:
            raise InputError(
                f"--bucket: found '{self.bucket}', wanted 3 to 63 of a-z, 0-9, '-' and '.'",
                remedy="for example: models",
            )
        if self.endpoint is not None:
            S3Client(endpoint=self.endpoint)
        if not self.environments:
            raise InputError("no environment is named", remedy="--environment prod")
        for name in self.environments:
            if not re.fullmatch(DNS_LABEL, name) or len(NAMESPACE + name) > 63:
                raise InputError(
                    f"--environment: found '{name}', wanted a-z, 0-9 and '-', at most {63 - len(NAMESPACE)} characters",
                    remedy="for example: --environment staging --environment prod",
                )
        if len(set(self.environments)) != len(self.environments):
            raise InputError(f"--environment: one is named twice: {', '.join(self.environments)}")
        if self.owner is not None and not _OWNER.fullmatch(self.owner):
            raise InputError(f"--owner: found '{self.owner}', wanted @ORG/TEAM, @PERSON or a mail address")
        if self.repository is not None and not _ADDRESS.fullmatch(self.repository):
            raise InputError(f"--repository: found '{self.repository}', wanted https://HOST/ORG/NAME.git")
        parse_allowed_signers("\n".join(self.signers), origin="--signer")

    @property
    def team(self) -> str:
        """The label that environments carry: the owner's last word."""
        word = (self.owner or "").rpartition("/")[2].strip("@").partition("@")[0].lower()
        word = word.replace("_", "-").replace(".", "-")
        return word if re.fullmatch(DNS_LABEL, word) else "models"


def signer_line(path: Path, principal: str | None) -> str:
    """The line of `policies/allowed_signers` for a public key file; whose it is says its comment, else `principal`.

    Raises `InputError` for a file that is no public key that can sign, and above all for a private one.
    """
    text = read_text(path).strip()
    if "PRIVATE KEY" in text:
        raise InputError(f"{path}: a private key, which must never be in git", remedy=f"--signer {path}.pub")
    kind, key, *comment = text.split()[:3] if len(text.splitlines()) == 1 else [""] * 2
    name = comment[0] if comment and re.fullmatch(r"[^\s,\"*?]+", comment[0]) else principal
    if kind not in SIGNING_TYPES or not key:
        raise InputError(
            f"{path}: no public key that can sign here", remedy="ssh-keygen -t ecdsa makes one; give its .pub file"
        )
    if not name:
        raise InputError(f"{path}: the key says of nobody that it is theirs", remedy="git config user.email '…'")
    line = f"{name} {kind} {key}"
    parse_allowed_signers(line, origin=str(path))
    return line
