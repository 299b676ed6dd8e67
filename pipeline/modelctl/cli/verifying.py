"""What `modelctl verify` looks at, for what a person named, and the one outcome of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelctl.cli.attested import attestation_plain
from modelctl.cli.output import counted
from modelctl.errors import InputError, RefusedError
from modelctl.model.release import similar_release
from modelctl.model.tree import Tree, scan_tree
from modelctl.progress import Progress
from modelctl.registry.claims import Claim, claims_in_bucket, claims_in_git
from modelctl.registry.manifest import Served
from modelctl.registry.summary import published
from modelctl.registry.trust import Signed, signers_of, trusted
from modelctl.registry.verify import compare
from modelctl.registry.verify_bucket import BucketVerification, verify_bucket
from modelctl.rollout.lookup import Found, allowed_signers, find, find_in_bucket, open_store

if TYPE_CHECKING:
    from modelctl.admission.signers import AllowedSigner
    from modelctl.settings import Workspace

SHOWN = 20
"""Differences that a person is shown; JSON has all."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What was asked for."""

    folder: Path | None
    release: str | None
    full: bool
    sample: int
    source: str | None
    digest: str | None
    signers: Path | None

    @classmethod
    def parse(
        cls,
        targets: Sequence[str],
        *,
        full: bool,
        sample: int,
        source: str | None,
        digest: str | None,
        signers: Path | None,
    ) -> Wanted:
        """Tell folders from releases. Raises `InputError`."""
        folders = [target for target in targets if Path(target).is_dir()]
        releases = [target for target in targets if target not in folders]
        if len(folders) > 1 or len(releases) > 1:
            raise InputError(
                f"{' '.join(targets)}: wanted one folder, one release, or one of each",
                remedy="modelctl verify NAME@VERSION DIR",
            )
        if releases and "@" not in releases[0] and not releases[0].startswith("sha256:"):
            raise InputError(
                f"'{releases[0]}' is neither a folder nor NAME@VERSION",
                remedy="check the path, or write for example smollm2-135m@1.0.0",
            )
        if not releases and source is not None and digest is None:
            raise InputError("--from alone does not say which release DIR is", remedy="add NAME@VERSION or --digest")
        return cls(
            folder=Path(folders[0]) if folders else None,
            release=releases[0] if releases else None,
            full=full,
            sample=sample,
            source=source,
            digest=digest,
            signers=signers,
        )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Everything that one verification saw."""

    release: str
    digest: str
    claims: tuple[Claim, ...]
    all_differences: tuple[str, ...]
    bucket: BucketVerification | None

    @property
    def exit_code(self) -> int:
        """0 everything agrees, 1 something differs, 3 something could not be checked."""
        states = {claim.state for claim in self.claims}
        return 1 if "contradicts" in states else 3 if "unchecked" in states or not states else 0

    @property
    def differences(self) -> tuple[str, ...]:
        """As many as a person reads."""
        more = len(self.all_differences) - SHOWN
        return self.all_differences[:SHOWN] + ((f"and {more} more (--json has all)",) if more > 0 else ())

    @property
    def signed(self) -> Signed | None:
        """The attestation whose signature was verified."""
        return next((claim.signed for claim in self.claims if claim.signed is not None), None)

    def as_plain(self) -> dict[str, object]:
        """Plain JSON values."""
        signed = self.signed
        return {
            "release": self.release,
            "served_digest": self.digest,
            "exit_code": self.exit_code,
            "claims": [{"what": c.what, "state": c.state, "detail": c.detail} for c in self.claims],
            "differences": list(self.all_differences),
            "bytes_read": self.bucket.read_bytes if self.bucket else None,
            "files_read": list(self.bucket.read) if self.bucket else None,
            "attestation": None if signed is None else attestation_plain(signed),
        }


def run(workspace: Workspace, wanted: Wanted, progress: Progress) -> Outcome:
    """Verify what was asked for. Raises `InputError`, `RefusedError` for a folder that is no release, `StoreError`."""
    tree = scan_tree(wanted.folder, progress=progress, label="hash the folder") if wanted.folder else None
    if wanted.source is not None:
        return _by_bucket_alone(workspace, wanted, tree, progress)
    found = _release_of(workspace, wanted, tree)
    if found.why:
        progress.note(found.why)
    if found.record is None:
        close = similar_release(workspace.root, found.name, found.version)
        meant = f"did you mean {close}? Else " if close not in (None, found.id) else ""
        raise InputError(
            f"{found.id} has no record in {workspace.root}",
            remedy=f"{meant}run it in the registry repository, or ask the bucket alone: --from s3://BUCKET",
        )
    signers = signers_of(workspace.root, allowed_signers(workspace, wanted.signers))
    served = found.record.served
    claims = [*_digest(wanted.digest or found.digest, served), *claims_in_git(workspace.root, found.record, signers)]
    bucket = None
    if wanted.release is not None or wanted.full or wanted.sample:
        store = open_store(workspace, None)
        claims += claims_in_bucket(store, found.record, signers)
        bucket = verify_bucket(store, served, full=wanted.full, sample=wanted.sample, progress=progress)
    return _outcome(found.id, served, claims, bucket, tree)


def _by_bucket_alone(workspace: Workspace, wanted: Wanted, tree: Tree | None, progress: Progress) -> Outcome:
    store = open_store(workspace, wanted.source, wanted.release)
    found = find_in_bucket(store, wanted.release or wanted.digest or "")
    named = allowed_signers(workspace, wanted.signers)
    signers: Sequence[AllowedSigner] | None = signers_of(workspace.root, named) if named else None
    digest = wanted.digest or found.digest
    trust = trusted(store, found.name, found.version, digest=digest, signers=signers)
    grounds = " and ".join(trust.grounds())
    claims = [
        Claim(what="manifest", state="agrees", detail=f"agrees with {grounds}", signed=trust.signed)
        if grounds
        else Claim(
            what="manifest",
            state="unchecked",
            detail="nothing but the bucket itself says what the release is",
            remedy="add --digest or --signers",
        )
    ]
    bucket = verify_bucket(store, trust.served, full=wanted.full, sample=wanted.sample, progress=progress)
    return _outcome(found.id, trust.served, claims, bucket, tree)


def _release_of(workspace: Workspace, wanted: Wanted, tree: Tree | None) -> Found:
    if wanted.release is not None:
        return find(workspace, wanted.release)
    if tree is None:
        raise AssertionError("a folder or a release was named")
    known = [item for item in published(workspace.root) if item.tree_digest == tree.digest]
    if not known or tree.problems:
        why = f" ({tree.problems[0].path} {tree.problems[0].detail})" if tree.problems else ""
        raise RefusedError(
            f"{wanted.folder} is {tree.digest}, which no release of {workspace.root} is{why}",
            remedy=f"modelctl verify NAME@VERSION {wanted.folder} names what differs from that release",
        )
    return find(workspace, known[-1].id)


def _digest(digest: str | None, served: Served) -> list[Claim]:
    if digest is None:
        return []
    agrees = digest == served.tree_digest
    detail = "is that of the record" if agrees else f"{digest}, the record names {served.tree_digest}"
    return [Claim(what="the digest given", state="agrees" if agrees else "contradicts", detail=detail)]


def _outcome(
    release: str, served: Served, claims: Sequence[Claim], bucket: BucketVerification | None, tree: Tree | None
) -> Outcome:
    every = list(claims)
    differences: list[str] = []
    if bucket is not None:
        every.append(_bucket_claim(bucket))
        differences += [f"bucket, {line}" for line in bucket.differences()]
    if tree is not None:
        found = compare(served, tree)
        state = f"{counted(len(tree.files), 'file')}, every byte hashed"
        detail = state if found.whole else counted(len(found.differences()), "difference")
        every.append(Claim(what="folder", state="agrees" if found.whole else "contradicts", detail=detail))
        differences += [f"folder, {line}" for line in found.differences()]
    return Outcome(
        release=release,
        digest=served.tree_digest,
        claims=tuple(every),
        all_differences=tuple(differences),
        bucket=bucket,
    )


def _bucket_claim(bucket: BucketVerification) -> Claim:
    share = counted(len(bucket.read), "file") if bucket.read_bytes < bucket.total_bytes else "every byte"
    read = f"; {share} read" if bucket.read else "; no byte was read (--sample N, --full)"
    if not bucket.whole:
        detail = f"{counted(len(bucket.differences()), 'difference')}{read}"
        return Claim(
            what="objects",
            state="contradicts",
            detail=detail,
            remedy="modelctl publish of the same bytes puts objects back; check who may write there",
        )
    unsaid = len(bucket.unannounced)
    hashes = f", {unsaid} without an announced sha256" if unsaid else ", announced hashes"
    return Claim(what="objects", state="agrees", detail=f"{bucket.uri}: names, sizes{hashes}{read}")
