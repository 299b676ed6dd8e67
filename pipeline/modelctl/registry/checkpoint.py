"""`checkpoint.dsse.json` of a record: the publisher's signed word for what the history was when the release came.

An in-toto statement (v1) in a DSSE envelope. Its subject is the commit that HEAD named; the predicate names the release
and its bytes, and the checkpoint before by the sha256 of its file, so that all of them are one chain. Whoever rewrites
history before the last publication would have to sign every later checkpoint anew; whoever drops one breaks the chain.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from modelctl.admission.dsse import Envelope, Signer
from modelctl.admission.in_toto import read_statement, statement
from modelctl.errors import InputError
from modelctl.files import write_whole
from modelctl.git import Git
from modelctl.model.release import parse_release_id, release_folder
from modelctl.registry.names import CHECKPOINT_FILE

PREDICATE_TYPE = "https://modelctl.dev/checkpoint/v1"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What one says."""

    release: str
    tree_digest: str
    head: str
    """The commit that the publication was made on."""
    previous: tuple[str, ...]
    """sha256, in hex, of the checkpoints that were the newest then; none for the first one."""

    def statement(self) -> bytes:
        """The bytes that are signed."""
        predicate = {"release": self.release, "tree_digest": self.tree_digest, "previous": list(self.previous)}
        return statement(PREDICATE_TYPE, [("HEAD", {"gitCommit": self.head})], predicate)

    @classmethod
    def of(cls, envelope: Envelope, *, origin: str) -> Checkpoint:
        """What an envelope's payload says; its signature is the caller's business. Raises `InputError`."""
        try:
            said = read_statement(envelope, PREDICATE_TYPE, origin=origin)
            (head,) = said.digests("gitCommit").values()
            return cls(
                release=str(said.predicate["release"]),
                tree_digest=str(said.predicate["tree_digest"]),
                head=head,
                previous=tuple(str(name) for name in said.predicate["previous"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{origin}: not a checkpoint: {error!r}") from error


def write_checkpoint(root: Path, release_id: str, tree_digest: str, signer: Signer) -> Path | None:
    """Write a release's checkpoint, uncommitted; its path, or None before the repository's first commit.

    Raises `GitError`, and what the signer raises.
    """
    git = Git.containing(root)
    head = git.head()
    if head is None:
        return None
    checkpoint = Checkpoint(release=release_id, tree_digest=tree_digest, head=head, previous=_newest(root, head))
    path = release_folder(root, *parse_release_id(release_id)) / CHECKPOINT_FILE
    write_whole(path, signer.seal(checkpoint.statement()).to_json())
    return path


def checkpoint_sha256(content: bytes) -> str:
    """How a later checkpoint names one."""
    return hashlib.sha256(content).hexdigest()


def _newest(root: Path, head: str) -> tuple[str, ...]:
    """The checkpoints that the newest publication brought."""
    git = Git(root.resolve())
    listed = git.run(
        *("-c", "log.showSignature=false", "log", "-1", "-z", "--diff-filter=A", "--no-renames", "--name-only"),
        *("--format=", "--relative", head, "--", f":(glob)registry/*/*/{CHECKPOINT_FILE}"),
    )
    paths = sorted(path for path in listed.split("\0") if path.endswith(CHECKPOINT_FILE))
    contents = git.blobs([f"{head}:./{path}" for path in paths]) if paths else ()
    return tuple(checkpoint_sha256(content) for content in contents if content is not None)
