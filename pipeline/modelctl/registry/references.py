"""What a person writes for a release: a version, `latest`, what an environment serves, or a digest; and which it is.

NAME@1.2.0          that version
NAME@latest         the newest version that is no pre-release
NAME@stable:ENV     what the environment serves to everybody
NAME@canary:ENV     what it serves to a share of the traffic
NAME@sha256:HEX     the release whose served tree has this digest; sha256:HEX of any name
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from modelctl.documents import nearest
from modelctl.errors import InputError
from modelctl.model.release import NAME_PATTERN, VERSION_PATTERN
from modelctl.registry.manifest import MANIFESTS, Manifest, manifest_key
from modelctl.registry.store import ObjectStore
from modelctl.registry.versions import version_order

Channel = Literal["stable", "canary"]
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CHANNEL = re.compile(r"(stable|canary):([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)")


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A parsed reference: a version, or one of `latest`, `channel` in `environment`, and `digest`."""

    text: str
    name: str | None
    """None only beside a digest."""
    version: str | None = None
    latest: bool = False
    channel: Channel | None = None
    environment: str | None = None
    digest: str | None = None


@dataclass(frozen=True, kw_only=True)
class Known:
    """A published release that a reference may mean."""

    name: str
    version: str
    digest: str | None
    """The served tree's; None where it was not asked for."""

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"


def parse_reference(text: str) -> Reference:
    """Read a reference. Raises `InputError` that lists the forms."""
    if _DIGEST.fullmatch(text):
        return Reference(text=text, name=None, digest=text)
    name, at, rest = text.partition("@")
    if at and re.fullmatch(NAME_PATTERN, name):
        if re.fullmatch(VERSION_PATTERN, rest):
            return Reference(text=text, name=name, version=rest)
        if rest == "latest":
            return Reference(text=text, name=name, latest=True)
        if _DIGEST.fullmatch(rest):
            return Reference(text=text, name=name, digest=rest)
        if found := _CHANNEL.fullmatch(rest):
            channel: Channel = "stable" if found[1] == "stable" else "canary"
            return Reference(text=text, name=name, channel=channel, environment=found[2])
    raise InputError(
        f"'{text}' is not NAME@VERSION",
        remedy="write for example smollm2-135m@1.0.0; VERSION may also be latest, stable:ENV, canary:ENV or sha256:HEX",
    )


def choose(reference: Reference, known: Sequence[Known], *, where: str) -> Known:
    """The release that a version, `latest` or a digest means. Raises `InputError` that says what `where` holds."""
    named = [item for item in known if reference.name in (None, item.name)]
    if reference.name is not None and not named:
        close = nearest(reference.name, sorted({item.name for item in known}))
        raise InputError(
            f"{reference.text}: no release of {reference.name} is published in {where}",
            remedy=f"did you mean {close}?" if close else "modelctl list shows what is published",
        )
    if reference.latest:
        stable = [item for item in named if "-" not in item.version]
        if not stable:
            versions = _versions(named)
            raise InputError(
                f"{reference.text}: there are only pre-releases ({versions}), and latest never means one",
                remedy="name the version",
            )
        return max(stable, key=lambda item: version_order(item.version))
    found = [
        item
        for item in named
        if (reference.version is not None and item.version == reference.version)
        or (reference.digest is not None and item.digest == reference.digest)
    ]
    if not found:
        raise InputError(
            f"{reference.text} is not published in {where}",
            remedy=f"published of {reference.name}: {_versions(named)}"
            if reference.name
            else "modelctl list --json shows the digests",
        )
    return max(found, key=lambda item: version_order(item.version))


def published_in(store: ObjectStore, reference: Reference) -> tuple[Known, ...]:
    """The releases that have their manifest in the bucket, for one name or for all; digests where they are asked for.

    Raises `InputError` for a digest without a name among more than 1,000 releases, `RefusedError`, `StoreError`.
    """
    prefix = MANIFESTS + (f"{reference.name}/" if reference.name else "")
    found = []
    for key in store.sizes(prefix):
        name, _, version = key.removeprefix(MANIFESTS).removesuffix(".json").partition("/")
        if re.fullmatch(NAME_PATTERN, name) and re.fullmatch(VERSION_PATTERN, version):
            found.append((name, version))
    if reference.digest is None:
        return tuple(Known(name=name, version=version, digest=None) for name, version in found)
    if len(found) > MAX_MANIFESTS:
        raise InputError(
            f"{reference.text}: {len(found)} manifests would have to be read to find it",
            remedy="write NAME@sha256:…",
        )
    return tuple(_with_digests(store, found))


MAX_MANIFESTS = 1000


def _with_digests(store: ObjectStore, found: Iterable[tuple[str, str]]) -> Iterable[Known]:
    for name, version in found:
        content = store.read(manifest_key(name, version))
        if content is not None:
            served = Manifest.from_json(content, name=name, version=version).served
            yield Known(name=name, version=version, digest=served.tree_digest)


def _versions(known: Iterable[Known]) -> str:
    ordered = sorted({item.version for item in known}, key=version_order, reverse=True)
    return ", ".join(ordered[:5]) + (" …" if len(ordered) > 5 else "") if ordered else "nothing"
