"""Every claim that git holds about releases, checked against every other, at HEAD."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from modelctl.admission.attestation import Statement
from modelctl.audit.deployments import Published, check_allowed, check_deployment, deployed
from modelctl.audit.history import History, read_history
from modelctl.audit.releases import Publication, check_publication, publications, record_at
from modelctl.audit.violation import Unverified, Verification, Violation
from modelctl.errors import InputError
from modelctl.registry.retired import RETIRED_FILE


def verify(root: Path, *, name: str | None = None, version: str | None = None, env: str | None = None) -> Verification:
    """Verify the releases and deployments of a registry repository; `name`, `version` and `env` narrow the view.

    Only what is committed counts. Raises `InputError` outside a git repository, `GitError`.
    """
    history = read_history(root)
    known = publications(history)
    chosen = [item for item in known.values() if name in (None, item.name) and version in (None, item.version)]
    places = [place for place in deployed(history, env=env) if name in (None, place[1])]
    results = [
        result
        for found in (
            _coverage(history, len(chosen) + len(places)),
            *(check_publication(history, publication) for publication in chosen),
            _deployments(history, known, places, whole=name is None and env is None),
        )
        for result in found
    ]
    return Verification(
        head=history.head,
        releases=len(chosen),
        deployments=len(places),
        signatures=sum(isinstance(result, Statement) for result in results),
        violations=tuple(result for result in results if isinstance(result, Violation)),
        unverified=tuple(result for result in results if isinstance(result, Unverified)),
    )


def _coverage(history: History, looked_at: int) -> Iterator[Unverified]:
    if history.shallow:
        yield Unverified(
            reason="this clone is shallow: older commits are missing, and with them what they changed",
            remedy="git fetch --unshallow --tags",
        )
    if not looked_at:
        yield Unverified(
            reason="nothing was verified: git holds no published release and no deployment that was asked for",
            remedy="modelctl list shows what is published",
        )


def _deployments(
    history: History, known: dict[str, Publication], places: list[tuple[str, str]], *, whole: bool
) -> Iterator[Violation]:
    published = dict(_published(history, known))
    for environment, name in places:
        yield from check_deployment(history, environment, name, published)
    if whole:
        yield from check_allowed(history, published)


def _published(history: History, known: dict[str, Publication]) -> Iterator[tuple[str, Published]]:
    for release, publication in known.items():
        try:
            record = record_at(history, publication, history.head)
        except InputError:
            continue  # said by check_publication; a deployment of it counts as unpublished
        if record is not None:
            retired = history.content(history.head, f"{publication.folder}/{RETIRED_FILE}") is not None
            yield release, Published(digest=record.served.tree_digest, commit=publication.commit.id, retired=retired)
