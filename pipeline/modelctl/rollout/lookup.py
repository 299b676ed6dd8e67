"""Find the release that a person named, and what is known of it here: the first step of pull, verify and their kin.

In a registry repository the records and the environments in git decide; with `--from` only the bucket is asked, so that
an init container needs neither git nor the repository.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelctl.errors import InputError
from modelctl.model.release import release_folder
from modelctl.registry.names import RECORD_FILE
from modelctl.registry.records import Record, load_record
from modelctl.registry.references import Known, Reference, choose, parse_reference, published_in
from modelctl.registry.retired import refuse_retired
from modelctl.registry.summary import published

if TYPE_CHECKING:
    from modelctl.registry.store import ObjectStore
    from modelctl.settings import Workspace


@dataclass(frozen=True, kw_only=True)
class Found:
    """A release, and its record where this is its registry repository."""

    name: str
    version: str
    record: Record | None
    digest: str | None
    """The tree digest that the reference asked for."""
    why: str | None
    """How a reference that names no version was understood, for a person."""

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"


def find(workspace: Workspace, text: str) -> Found:
    """The release that `text` means in a registry repository; a plain version need not be recorded there.

    Raises `InputError`.
    """
    reference = parse_reference(text)
    if reference.version is not None and reference.name is not None:
        return _found(workspace.root, reference.name, reference.version, reference, why=None)
    if reference.channel is not None and reference.name is not None and reference.environment is not None:
        return _served(workspace.root, reference, reference.name, reference.environment)
    known = [
        Known(name=item.name, version=item.version, digest=item.tree_digest)
        for item in published(workspace.root, reference.name)
    ]
    where = f"{workspace.root / 'registry'} (--from s3://BUCKET asks a bucket)"
    chosen = choose(reference, known, where=where)
    return _found(workspace.root, chosen.name, chosen.version, reference, why=f"{text} is {chosen.id}")


def find_in_bucket(store: ObjectStore, text: str) -> Found:
    """The release that `text` means in a bucket. Raises `InputError`, `StoreError`."""
    reference = parse_reference(text)
    if reference.channel is not None:
        raise InputError(
            f"{text}: what an environment serves stands in git, and --from asks only the bucket",
            remedy="run it in the registry repository without --from, or name the version",
        )
    if reference.version is not None and reference.name is not None:
        return Found(name=reference.name, version=reference.version, record=None, digest=None, why=None)
    chosen = choose(reference, published_in(store, reference), where=str(store.place))
    return Found(
        name=chosen.name,
        version=chosen.version,
        record=None,
        digest=reference.digest,
        why=f"{text} is {chosen.id}",
    )


def open_store(workspace: Workspace, source: str | None, release: str | None = None) -> ObjectStore:
    """The store of the settings; `source` (`s3://BUCKET` or `s3://BUCKET/NAME/VERSION`) names another bucket of it.

    Raises `InputError`, also when a source with a release names another one than `release`.
    """
    from modelctl.model.s3_listing import S3Prefix
    from modelctl.registry.store import ObjectStore

    settings = workspace.settings.store
    if source is not None:
        place = S3Prefix.parse(source)
        named = place.prefix.rstrip("/").replace("/", "@", 1)
        if named and named != release:
            raise InputError(
                f"--from {source} holds {named}, and {release} was asked for",
                remedy=f"--from s3://{place.bucket} finds every release of the bucket",
            )
        settings = settings.model_copy(update={"bucket": place.bucket})
    return ObjectStore.open(settings, state=workspace.state)


def allowed_signers(workspace: Workspace, option: Path | None) -> Path | None:
    """The file of allowed signers that a person named, by option or setting."""
    named = option or workspace.settings.signing.allowed
    return workspace.resolve(named) if named is not None and option is None else named


def _served(root: Path, reference: Reference, name: str, environment: str) -> Found:
    from modelctl.rollout.standing import standing_of, standings

    standing = standing_of(standings(root), name, environment)
    release = standing.stable if reference.channel == "stable" else standing.canary
    if release is None:
        raise InputError(
            f"{reference.text}: {environment} has no canary of {name}; it serves {standing.stable}",
            remedy=f"{name}@stable:{environment} is what it serves",
        )
    version = release.partition("@")[2]
    why = f"{reference.text} is {release}"
    if reference.channel == "stable" and standing.canary:
        why += f": {standing.canary} is its canary, and git holds no promotion of it"
    return _found(root, release.partition("@")[0], version, reference, why=why)


def _found(root: Path, name: str, version: str, reference: Reference, *, why: str | None) -> Found:
    refuse_retired(root, name, version)
    recorded = (release_folder(root, name, version) / RECORD_FILE).is_file()
    record = load_record(root, name, version) if recorded else None
    return Found(name=name, version=version, record=record, digest=reference.digest, why=why)
