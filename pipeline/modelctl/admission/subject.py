"""What `modelctl admit REPO` is about: a release file, `name@version` of the registry, or a model named directly.

`name@version` always means the release file, published or not: its source is fetched and judged anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modelctl.errors import InputError
from modelctl.model.kinds import is_adapter, recognise
from modelctl.model.release import (
    NAME_PATTERN,
    VERSION_PATTERN,
    Release,
    Serving,
    Source,
    load_release,
    parse_release_id,
    release_folder,
    similar_release,
)
from modelctl.model.tree import Scan, scan_tree
from modelctl.progress import SILENT, Progress
from modelctl.settings import Workspace

if TYPE_CHECKING:  # what finds a release fetches nothing
    from modelctl.model.sources import Snapshot


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model to judge, and what its release asks for."""

    source: Snapshot
    baseline: Snapshot | None
    release: Release | None
    release_path: Path | None
    base: Snapshot | None = None
    """What an adapter is served on."""

    @property
    def serving(self) -> Serving:
        """How it is to be served."""
        return self.release.spec.serving if self.release else Serving()


def find_release(repo: str, root: Path, progress: Progress = SILENT) -> Path | None:
    """The release file that `repo` means, or None when it is no release."""
    path = Path(repo)
    if path.suffix in (".yaml", ".yml"):
        return path
    if (path / "release.yaml").is_file():
        return path / "release.yaml"
    name, _, version = repo.partition("@")
    if re.match(NAME_PATTERN, name) and re.match(VERSION_PATTERN, version):
        if not path.is_dir():
            return release_path(repo, root)
        if not (release_folder(root, name, version) / "release.yaml").is_file():
            return None
        progress.note(f"'{repo}' is a release and a folder here: the release is taken; ./{repo} names the folder")
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
        close = similar_release(root, name, version)
        meant = f"did you mean {close}? " if close and len(known) > 1 else ""
        raise InputError(
            f"no release {release_id}: {path} does not exist",
            remedy=f"{meant}this registry proposes: {', '.join(known)}" if known else f"write {path} (see README.md)",
        )
    return path


def fetch_source(
    source: Source | str,
    base: Path,
    workspace: Workspace,
    progress: Progress,
    *,
    upstream: str | None = None,
    scan: Scan = scan_tree,
) -> Snapshot:
    """Bring a source into the state folder's store and hash it; see `resolve_source`."""
    from modelctl.model.s3_client import S3Client
    from modelctl.model.sources import resolve_source

    return resolve_source(
        source,
        base=base,
        store=workspace.state / "store",
        progress=progress,
        s3=lambda: S3Client.open(workspace.settings.store, state=workspace.state),
        upstream=upstream,
        scan=scan,
    )


def resolve_subject(repo: str, workspace: Workspace, progress: Progress, *, upstream: str | None = None) -> Subject:
    """Find, fetch and hash what is to be judged; `upstream` is `ORG/NAME@COMMIT` to compare it with.

    Raises `InputError` for what can't be understood.
    """
    path = find_release(repo, workspace.root, progress)
    if path is None:
        source = fetch_source(repo, Path.cwd(), workspace, progress, upstream=upstream)
        return Subject(source=source, baseline=None, release=None, release_path=None)
    release = load_release(path)
    if upstream is not None:
        raise InputError(
            f"{path}: a release names its own upstream, --upstream is for a model named directly",
            remedy="write source.upstream and source.upstream_revision in the release file",
        )
    progress.note(f"{repo} is understood as the release file of {release.id}")
    baseline, base = release.spec.baseline, release.spec.base
    source = fetch_source(release.spec.source, workspace.root, workspace, progress)
    if base is not None and not is_adapter(recognise(source.tree)):
        raise InputError(
            f"{path}: spec.base is for a LoRA adapter, and the source is none",
            remedy="take 'base' out; the original to compare with is 'baseline'",
        )
    return Subject(
        source=source,
        baseline=fetch_source(baseline, workspace.root, workspace, progress) if baseline else None,
        base=fetch_source(base, workspace.root, workspace, progress) if base else None,
        release=release,
        release_path=path,
    )
