"""Which releases came from a source, a base model, a policy or a waiver: what each says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from modelctl.audit.events import Event
from modelctl.audit.history import History
from modelctl.audit.reading import record_facts
from modelctl.documents import validate
from modelctl.errors import InputError
from modelctl.model.release import Release, Source
from modelctl.registry.card import CARD_FILE, Card
from modelctl.registry.names import RECORD_FILE
from modelctl.rollout.lint.reading import documents

RELEASE_FILE = "release.yaml"
_READ = (RELEASE_FILE, CARD_FILE, RECORD_FILE)
_DIGEST_BEGINS = len("sha256:") + 8
State = Literal["proposed", "published", "retired", "withdrawn"]


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is asked for; all that is given must fit."""

    source: str | None = None
    """A Hub repository, with `@COMMIT` or without, a folder, an s3:// address or what begins with it, a DVC pointer, or
    the tree digest of what was proposed."""
    base: str | None = None
    """The same of what a release is compared with or served on; or a base model that its card names."""
    policy: str | None = None
    """A name, or the beginning of a digest."""
    waiver: str | None = None
    """A name, or the file's path."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """One release and where it came from."""

    release: str
    state: State
    sources: tuple[str, ...]
    """Every way in which its source may be named."""
    bases: tuple[str, ...]
    policy: str | None
    policy_digest: str | None
    waivers: tuple[str, ...]
    commit: str
    """The commit that published it, else the one that proposed it."""
    when: str
    who: str
    served_in: tuple[str, ...]
    """Environments that ever served it."""
    problem: str | None = None
    """Why its release file or card could not be read: then it is listed, since nobody knows whether it fits."""

    def as_json(self) -> Mapping[str, Any]:
        """Plain values."""
        return asdict(self)


def origins(history: History, events: Sequence[Event], search: Search) -> list[Origin]:
    """The releases that fit, in the order in which they were proposed. Raises `GitError`."""
    about: dict[str, list[Event]] = {}
    for item in events:
        if item.release:
            about.setdefault(item.release, []).append(item)
    texts = _texts(history)
    found = []
    for release, story in about.items():
        if any(item.kind in ("proposed", "moved", "published") for item in story):
            origin = _origin(release, story, texts, search)
            if origin is not None:
                found.append(origin)
    return found


def _texts(history: History) -> Mapping[str, bytes]:
    """The last content of each file that says where a release came from, by path."""
    last = {
        change.path: change.blob
        for commit in history.commits
        for change in commit.changes
        if change.blob and change.path.startswith("registry/") and change.path.rpartition("/")[2] in _READ
    }
    contents = history.git.blobs(list(last.values())) if last else ()
    return {path: content for path, content in zip(last, contents, strict=True) if content is not None}


def _origin(release: str, story: Sequence[Event], texts: Mapping[str, bytes], search: Search) -> Origin | None:
    folder = "registry/" + release.replace("@", "/", 1)
    text, card, record = (texts.get(f"{folder}/{name}", b"") for name in _READ)
    published = next((item for item in reversed(story) if item.kind == "published"), None)
    first = published or story[0]
    waivers = tuple(dict.fromkeys(item.waiver for item in story if item.waiver))
    if search.waiver is not None and not any(_is_waiver(item, search.waiver) for item in waivers):
        return None
    sources: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    policy, digest = (published.policy, published.policy_digest) if published else (None, None)
    if search.policy is not None and policy is not None and not _is_policy(search.policy, policy, digest):
        return None
    problem = None
    if all(_may_hold(word, text + card + record) for word in (search.source, search.base)):
        try:
            said = validate(_value(text, folder), Release, origin=folder)
            sources = (*names_of(said.spec.source), *_digest(record))
            bases = (*names_of(said.spec.base), *names_of(said.spec.baseline), *_bases(card, folder))
            policy = policy or said.spec.policy
        except InputError as error:
            problem = error.message
    if problem is None and not (
        _fits(search.source, sources)
        and _fits(search.base, bases)
        and (search.policy is None or _is_policy(search.policy, policy, digest))
    ):
        return None
    kinds = [item.kind for item in story]
    return Origin(
        release=release,
        state=_state(kinds),
        sources=sources,
        bases=bases,
        policy=policy,
        policy_digest=digest,
        waivers=waivers,
        commit=first.commit,
        when=first.when,
        who=first.who,
        served_in=tuple(dict.fromkeys(item.environment for item in story if item.environment)),
        problem=problem,
    )


def names_of(source: Source | None) -> Iterator[str]:
    """Every way in which a source may be named, the most exact first."""
    if source is None:
        return
    for name, revision in ((source.hub, source.revision), (source.upstream, source.upstream_revision)):
        if name is not None:
            yield f"{name}@{revision}"
            yield name
    for place in (source.folder, source.s3, source.dvc, source.digest):
        if place is not None:
            yield str(place)


def _state(kinds: Sequence[str]) -> State:
    if "retired" in kinds:
        return "retired"
    if "published" in kinds:
        return "published"
    last = next((kind for kind in reversed(kinds) if kind in ("proposed", "changed", "moved", "withdrawn")), "proposed")
    return "withdrawn" if last == "withdrawn" else "proposed"


def _bases(card: bytes, folder: str) -> tuple[str, ...]:
    if not card:
        return ()
    origin = f"{folder}/{CARD_FILE}"
    return validate(_value(card, origin), Card, origin=origin).base_models


def _value(content: bytes, origin: str) -> object:
    """The value of a YAML file, read quickly: it was read strictly when it was admitted."""
    found = [value for _, value in documents(content.decode(errors="replace"), origin=origin)]
    return found[0] if len(found) == 1 else None


def _digest(record: bytes) -> tuple[str, ...]:
    digest = record_facts(record).get("source_digest")
    return (digest,) if digest else ()


def _may_hold(word: str | None, content: bytes) -> bool:
    """Whether it is worth reading: the words without a pinned commit are somewhere in the bytes."""
    return word is None or word.partition("@")[0].casefold().encode() in content.lower()


def _fits(word: str | None, names: Sequence[str]) -> bool:
    if word is None:
        return True
    wanted, known = word.casefold(), [name.casefold() for name in names]
    return wanted in known or (wanted.startswith("s3://") and any(name.startswith(wanted) for name in known))


def _is_policy(word: str, policy: str | None, digest: str | None) -> bool:
    begins = len(word) >= _DIGEST_BEGINS and word.startswith("sha256:") and (digest or "").startswith(word)
    return word == policy or begins


def _is_waiver(file: str, word: str) -> bool:
    return word in (file, PurePosixPath(file).stem)
