"""What `modelctl admit REPO` is about: a release file, `name@version` of the registry, a folder or a Hub id."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from modelctl.errors import InputError
from modelctl.model.release import (
    NAME_PATTERN,
    VERSION_PATTERN,
    Release,
    Serving,
    Source,
    load_release,
    parse_release_id,
    release_folder,
)
from modelctl.model.sources import Snapshot, resolve_source
from modelctl.progress import Progress
from modelctl.settings import Workspace


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model to judge, and what its release asks for."""

    source: Snapshot
    baseline: Snapshot | None
    release: Release | None
    release_path: Path | None

    @property
    def serving(self) -> Serving:
        """How it is to be served."""
        return self.release.spec.serving if self.release else Serving()


def find_release(repo: str, root: Path) -> Path | None:
    """The release file that `repo` means, or None when it is no release."""
    path = Path(repo)
    if path.suffix in (".yaml", ".yml"):
        return path
    if (path / "release.yaml").is_file():
        return path / "release.yaml"
    name, _, version = repo.partition("@")
    if re.match(NAME_PATTERN, name) and re.match(VERSION_PATTERN, version):
        return release_path(repo, root)
    return None


def release_path(release_id: str, root: Path) -> Path:
    """The release file of `name@version`. Raises `InputError` when the registry has none, naming what it has."""
    name, version = parse_release_id(release_id)
    path = release_folder(root, name, version) / "release.yaml"
    if not path.is_file():
        known = sorted(
            f"{item.parent.parent.name}@{item.parent.name}" for item in root.glob("registry/*/*/release.yaml")
        )
        raise InputError(
            f"no release {release_id}: {path} does not exist",
            remedy=f"this registry proposes: {', '.join(known)}" if known else f"write {path} (see README.md)",
        )
    return path


def resolve_subject(repo: str, workspace: Workspace, progress: Progress) -> Subject:
    """Find, fetch and hash what is to be judged. Raises `InputError` for what can't be understood."""
    path = find_release(repo, workspace.root)
    store = workspace.state / "store"

    def fetch(source: Source | str, base: Path) -> Snapshot:
        return resolve_source(source, base=base, store=store, progress=progress)

    if path is None:
        return Subject(source=fetch(repo, Path.cwd()), baseline=None, release=None, release_path=None)
    release = load_release(path)
    baseline = release.spec.baseline
    return Subject(
        source=fetch(release.spec.source, workspace.root),
        baseline=fetch(baseline, workspace.root) if baseline else None,
        release=release,
        release_path=path,
    )
