"""Lay a registry repository down: all of its files or none, nothing overwritten, and in a new folder the first commit.

In a repository that is there already nothing is committed: what came is the person's to look at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from modelctl.errors import InputError
from modelctl.files import write_whole
from modelctl.git import Git, GitError
from modelctl.registry.dvc import ensure_remote
from modelctl.registry.store import ObjectStore
from modelctl.repository.contents import contents
from modelctl.repository.plan import Plan

DVC_FILES = (".dvc/.gitignore", ".dvc/config")
BRANCH = "main"


@dataclass(frozen=True, kw_only=True)
class LaidDown:
    """What was written, or would be. Paths start at `folder`."""

    folder: Path
    written: tuple[str, ...]
    kept: tuple[str, ...]
    """Files that were there and stay as they are."""
    commit: str | None
    """The first commit of a new repository."""
    undecided: tuple[str, ...]
    """What a person must still decide, one sentence each."""


def lay_down(folder: Path, plan: Plan, *, missing: bool = False, dry_run: bool = False) -> LaidDown:
    """Write the files of `plan` below `folder`. With `missing`, files that are there stay, and the others are added.

    Raises `InputError` naming every file that is in the way, for a folder inside of another repository, and where git
    does not know who commits.
    """
    files = contents(plan)
    new = _is_new(folder)
    there = sorted(path for path in files if (folder / path).is_symlink() or (folder / path).exists())
    if there and not missing:
        some = ", ".join(there[:8]) + (f" and {len(there) - 8} more" if len(there) > 8 else "")
        raise InputError(
            f"{folder}: already there, and nothing is overwritten: {some}",
            remedy="name another folder, or add --missing: it writes only what is not there",
        )
    _require_folders(folder, files)
    if new and not dry_run:
        _require_identity(folder)
    wanted = [path for path in files if path not in there]
    dvc = [path for path in DVC_FILES if plan.endpoint and not (folder / path).exists()]
    commit = None
    if not dry_run:
        for path in wanted:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, files[path])
        if plan.endpoint:
            store = ObjectStore(endpoint=plan.endpoint, bucket=plan.bucket, region=plan.region)
            ensure_remote(folder, store)
        if new:
            commit = _first_commit(folder)
    return LaidDown(
        folder=folder,
        written=tuple(sorted([*wanted, *dvc])),
        kept=tuple(there),
        commit=commit,
        undecided=undecided(plan),
    )


def undecided(plan: Plan) -> tuple[str, ...]:
    """What the answers leave open, with the file that it belongs into."""
    open_questions = {
        "modelctl.yaml: store.endpoint, the object store; until then that of modelctl services up": plan.endpoint,
        ".github/actions/modelctl/action.yml: inputs.source, which modelctl the workflows install": plan.program,
        ".github/CODEOWNERS: who must approve changes of what decides": plan.owner,
        "policies/allowed_signers: the public key of who signs releases (--signer FILE.pub)": plan.signers,
        "gitops/bootstrap/settings.yaml: data.repository, where Argo CD reaches this repository": plan.repository,
    }
    return (
        *(words for words, answer in open_questions.items() if not answer),
        *(
            f"gitops/environments/{name}/environment.yaml: the cluster's names, and the digest of the image that pulls"
            for name in plan.environments
        ),
    )


def _is_new(folder: Path) -> bool:
    """Whether there is no git repository yet. Raises `InputError` inside of one whose root is elsewhere."""
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    if not existing.is_dir():
        raise InputError(f"{existing}: a file where a folder is wanted")
    top = Git(existing).run("rev-parse", "--show-toplevel", check=False).strip()
    if not top:
        return True
    if Path(top).resolve() != folder.resolve():
        raise InputError(
            f"{folder} lies in the git repository {top}, and GitHub reads workflows only at its root",
            remedy=f"modelctl init {top}, or name a folder outside of it",
        )
    return False


def _require_folders(folder: Path, files: Mapping[str, str]) -> None:
    """Nothing but folders on the way to each file, and no link that leads out. Raises `InputError`."""
    for path in files:
        for parent in (folder / path).parents:
            if parent == folder:
                break
            if parent.is_symlink() or (parent.exists() and not parent.is_dir()):
                raise InputError(f"{parent}: wanted a folder there", remedy="move it away, or name another folder")


def _require_identity(folder: Path) -> None:
    existing = next(place for place in (folder, *folder.parents) if place.is_dir())
    try:
        Git(existing).run("var", "GIT_COMMITTER_IDENT")
    except GitError as error:
        raise InputError(
            "git does not know who makes the first commit",
            remedy="git config --global user.name '…' && git config --global user.email '…'",
        ) from error


def _first_commit(folder: Path) -> str | None:
    git = Git(folder)
    git.run("init", "--quiet", f"--initial-branch={BRANCH}")
    return git.commit([folder.resolve()], "Lay down the registry repository", trailers={})
