"""Everything that a registry repository knows of one release, gathered; nothing is judged here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from modelctl.admission.report import Report
from modelctl.admission.signers import AllowedSigner
from modelctl.documents import load_document
from modelctl.errors import InputError
from modelctl.git import Git
from modelctl.model.release import Release, load_release, release_folder, similar_release
from modelctl.registry.card import CARD_FILE, Card
from modelctl.registry.claims import Claim, claims_in_git
from modelctl.registry.names import RECORD_FILE, REPORT_FILE
from modelctl.registry.records import Record, load_record
from modelctl.registry.retired import Retired, retired


@dataclass(frozen=True, kw_only=True)
class Dossier:
    """One release. What is not there (a record before the publication, a report nobody kept) is None."""

    name: str
    version: str
    release: Release | None
    record: Record | None
    report: Report | None
    card: Card | None
    retired: Retired | None
    claims: tuple[Claim, ...]
    """How report, attestation and tag stand beside the record; empty before the publication."""
    commit: str | None
    """The commit that published it."""
    author: str | None
    """Who made that commit: `Name <address>`."""

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    @property
    def state(self) -> str:
        """As `modelctl list` says it."""
        return "retired" if self.retired else "published" if self.record else "proposed"


def gather(root: Path, name: str, version: str, signers: Sequence[AllowedSigner] | None) -> Dossier:
    """Read the folder of a release. Raises `InputError`: no such release, a malformed file."""
    folder = release_folder(root, name, version)
    if not folder.is_dir():
        there = sorted(path.name for path in folder.parent.iterdir()) if folder.parent.is_dir() else []
        close = similar_release(root, name, version)
        raise InputError(
            f"there is no {name}@{version} in {root / 'registry'}",
            remedy=f"of {name} there are: {', '.join(there)}"
            if there
            else f"did you mean {close}?"
            if close
            else "modelctl list shows what there is",
        )
    recorded = (folder / RECORD_FILE).is_file()
    record = load_record(root, name, version) if recorded else None
    report = folder / REPORT_FILE
    commit, author = _publication(root, folder / RECORD_FILE) if recorded else (None, None)
    return Dossier(
        name=name,
        version=version,
        release=load_release(folder / "release.yaml") if (folder / "release.yaml").is_file() else None,
        record=record,
        report=Report.from_json(report.read_text(encoding="utf-8"), origin=str(report)) if report.is_file() else None,
        card=load_document(folder / CARD_FILE, Card) if (folder / CARD_FILE).is_file() else None,
        retired=retired(root, name, version),
        claims=tuple(claims_in_git(root, record, signers)) if record else (),
        commit=commit,
        author=author,
    )


def _publication(root: Path, path: Path) -> tuple[str | None, str | None]:
    try:
        git = Git.containing(root)
    except InputError:
        return None, None
    found = git.run(
        *("-c", "log.showSignature=false", "log", "--diff-filter=A", "--format=%H%x00%an <%ae>", "-1", "--"),
        str(path.resolve()),
        check=False,
    )
    commit, _, author = found.strip().partition("\0")
    return commit or None, author or None
