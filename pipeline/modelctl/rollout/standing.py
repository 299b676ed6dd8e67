"""What each environment serves, as git says it: the manifest at a commit, and how it came to be there.

A manifest names one release. It is the canary until the manifest carries the mark of `modelctl promote` for it. Until
then stable is the last release before it that was promoted, or where none ever was the one that the manifest named
before: what Argo Rollouts goes back to. The first one in an environment is stable at once, since there is nothing to
compare it with. What a controller did since is only known to the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from modelctl.errors import InputError
from modelctl.git import Git
from modelctl.rollout.words import (
    DIGEST_ANNOTATION,
    PROMOTED_ANNOTATION,
    RELEASE_ANNOTATION,
    ROLLOUT_FILE,
)

ENVIRONMENTS = "gitops/environments"
_RELEASE = re.compile(rf"^ +[\"']?{re.escape(RELEASE_ANNOTATION)}[\"']?: [\"']?([^\s\"']+)[\"']?$", re.MULTILINE)
_DIGEST = re.compile(rf"^ +[\"']?{re.escape(DIGEST_ANNOTATION)}[\"']?: [\"']?([^\s\"']+)[\"']?$", re.MULTILINE)
_PROMOTED = re.compile(rf"^ +[\"']?{re.escape(PROMOTED_ANNOTATION)}[\"']?: [\"']?([^\s\"']+)[\"']?$", re.MULTILINE)
_PATH = re.compile(rf"(?:^|/){ENVIRONMENTS}/([^/]+)/([^/]+)/{re.escape(ROLLOUT_FILE)}$")


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One model in one environment."""

    environment: str
    folder: str
    """The folder's name: that of the objects in the cluster."""
    deployed: str
    """The release that the manifest names, `name@version`."""
    digest: str | None
    before: str | None
    """The last release before that one that was promoted, else the one that the manifest named before; None for the
    first."""
    promoted: bool
    """The manifest says that `deployed` was promoted."""

    @property
    def stable(self) -> str:
        """What everybody gets, as far as git knows."""
        return self.deployed if self.promoted or self.before is None else self.before

    @property
    def canary(self) -> str | None:
        """What a share of the traffic gets; None when that is nothing else."""
        return None if self.stable == self.deployed else self.deployed


def named_in(manifest: str) -> tuple[str, str | None] | None:
    """The release and the tree digest that a Rollout manifest names; None when it names no release with one voice."""
    marks = _marks(manifest)
    releases = set(_RELEASE.findall(marks))
    digests = set(_DIGEST.findall(marks))
    return (releases.pop(), digests.pop() if len(digests) == 1 else None) if len(releases) == 1 else None


def standings(root: Path) -> tuple[Standing, ...]:
    """What every environment of a registry repository serves, by environment and name.

    The files as they lie there count, the history only for what was before. Raises `InputError` for a
    manifest that names no release, `GitError`.
    """
    found = []
    paths = sorted((root / ENVIRONMENTS).glob(f"*/*/{ROLLOUT_FILE}"))
    if not paths:
        return ()
    past = named_over_time(root)
    for path in paths:
        environment, folder = path.parts[-3:-1]
        text = path.read_text(encoding="utf-8", errors="replace")
        named = named_in(text)
        if named is None:
            raise InputError(
                f"{path}: the Rollout and its pods do not say with one voice which release they serve",
                remedy="modelctl audit --verify shows who changed it",
            )
        release, digest = named
        found.append(
            Standing(
                environment=environment,
                folder=folder,
                deployed=release,
                digest=digest,
                before=_before(release, past.get((environment, folder), ())),
                promoted=is_promoted(text, release),
            )
        )
    return tuple(found)


def standings_at(root: Path, commit: str) -> tuple[tuple[Standing, Named], ...]:
    """What every environment served at a commit, each with the commit of the main line (the first parents) by which its
    release came; by environment and name. What the working tree holds does not count. Raises `GitError`.
    """
    found = []
    for (environment, folder), named in sorted(named_over_time(root, commit).items()):
        last = named[-1]
        if not last.gone:
            standing = Standing(
                environment=environment,
                folder=folder,
                deployed=last.release,
                digest=last.digest,
                before=_before(last.release, named),
                promoted=last.promoted,
            )
            found.append((standing, last))
    return tuple(found)


def _before(release: str, past: Sequence[Named]) -> str | None:
    """The last other release that was promoted, else the last other one."""
    earlier = [item for item in past if item.release != release]
    promoted = [item for item in earlier if item.promoted] or earlier
    return promoted[-1].release if promoted else None


def standing_of(all_of_them: Iterable[Standing], name: str, environment: str) -> Standing:
    """One model in one environment. Raises `InputError` that names what is there."""
    from modelctl.rollout.manifest import resource_name

    here = [item for item in all_of_them if item.environment == environment]
    for item in here:
        if item.folder == resource_name(name) or item.deployed.startswith(f"{name}@"):
            return item
    serves = ", ".join(item.deployed for item in here)
    raise InputError(
        f"{environment} does not serve {name}" + (f"; it serves {serves}" if serves else ": it serves nothing"),
        remedy="modelctl list shows what each environment serves",
    )


def served_anywhere(root: Path) -> Mapping[str, tuple[str, ...]]:
    """Every release that some branch or working tree serves, or would go back to, and where: `name@version` to places.

    All branches (local, and remote as of the last fetch), the history of each, and the files of every working tree,
    committed or not. Of a place's history counts what came after the last promotion before now, and what that promoted,
    but at least the two before: any of it may be what the cluster calls stable or goes back to. Raises `GitError`.
    """
    git = Git.containing(root)
    inside = root.resolve().relative_to(git.root.resolve())
    places: dict[str, set[str]] = {}
    for item in _worktrees(git):
        for path in sorted((item / inside / ENVIRONMENTS).glob(f"*/*/{ROLLOUT_FILE}")):
            named = named_in(path.read_text(encoding="utf-8", errors="replace"))
            if named is not None:
                places.setdefault(named[0], set()).add(f"{path.parts[-3]} (working tree {item})")
    refs: dict[str, list[str]] = {}
    for line in git.run("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/remotes").splitlines():
        commit, _, ref = line.partition(" ")
        refs.setdefault(commit, []).append(ref.removeprefix("refs/").removeprefix("heads/"))
    for commit, names in refs.items():
        for release, place in _may_be_served(root, commit):
            places.setdefault(release, set()).update(f"{place} ({name})" for name in names)
    return {release: tuple(sorted(found)) for release, found in places.items()}


def _may_be_served(root: Path, commit: str) -> Iterator[tuple[str, str]]:
    """The releases that a commit's environments serve or may go back to, each with the place in words."""
    tip = Git(root).run("ls-tree", "-r", "--name-only", "--full-name", commit, f"{ENVIRONMENTS}/")
    still = {(found[1], found[2]) for found in map(_PATH.search, tip.splitlines()) if found}
    past = named_over_time(root, commit) if still else {}
    for environment, folder in sorted(past.keys() & still):
        *earlier, last = past[environment, folder]
        yield last.release, environment
        back = earlier[::-1]
        for item in back[: _within_reach(last, back)]:
            if item.release != last.release:
                yield item.release, f"{environment} may go back to it"


def _within_reach(last: Named, back: Sequence[Named]) -> int:
    """How many of the releases before the last one, newest first, may be stable or be what a rollback brings."""
    promoted = next((number + 1 for number, item in enumerate(back) if item.promoted), None)
    if last.promoted:
        return max(2, promoted or 0)
    return len(back) if promoted is None else promoted


def is_promoted(manifest: str, release: str) -> bool:
    """Whether a Rollout manifest carries the mark that its release is the stable one."""
    return _PROMOTED.findall(_marks(manifest)) == [release]


def _marks(manifest: str) -> str:
    """The lines that may name something of ours: searching a whole manifest takes ten times as long."""
    return "\n".join(line for line in manifest.split("\n") if "modelctl.dev/" in line)


def _worktrees(git: Git) -> Iterator[Path]:
    for line in git.run("worktree", "list", "--porcelain").splitlines():
        word, _, rest = line.partition(" ")
        if word == "worktree" and Path(rest).is_dir():
            yield Path(rest)


@dataclass(frozen=True, kw_only=True)
class Named:
    """A release that a manifest has named, and whether it was promoted while it did."""

    release: str
    promoted: bool
    digest: str | None
    commit: str
    """The commit of the main line by which it came."""
    gone: str | None = None
    """The commit that removed the manifest while it named this release."""


def named_over_time(root: Path, ref: str = "HEAD") -> Mapping[tuple[str, str], Sequence[Named]]:
    """What each (environment, folder) has named, oldest first, a release that stayed for several commits once."""
    git = Git(root)
    exists = git.run("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", check=False).strip()
    if not exists:
        return {}
    listed = git.run(
        *("-c", "log.showSignature=false", "log", "--reverse", "--topo-order", "--no-renames", "-m", "--first-parent"),
        *("--raw", "--no-abbrev", "-z", "--format=%H", ref, "--", f"{ENVIRONMENTS}/"),
    )
    changes: list[tuple[str, tuple[str, str], str]] = []
    words = iter(word.strip("\n") for word in listed.split("\0"))
    commit = ""
    for word in words:
        if word.startswith(":"):
            matched = _PATH.search(next(words))
            if matched:
                changes.append((commit, (matched[1], matched[2]), word.split(" ")[3]))
        elif word:
            commit = word
    blobs = list(dict.fromkeys(blob for *_, blob in changes if blob.strip("0")))
    contents = dict(zip(blobs, git.blobs(blobs) if blobs else (), strict=True))
    past: dict[tuple[str, str], list[Named]] = {}
    for commit, place, blob in changes:
        releases = past.setdefault(place, [])
        text = (contents.get(blob) or b"").decode(errors="replace")
        named = named_in(text)
        if named is None:
            if releases and not blob.strip("0"):
                releases.append(replace(releases.pop(), gone=commit))
            continue
        release, digest = named
        promoted, came = is_promoted(text, release), commit
        if releases and releases[-1].release == release and not releases[-1].gone:
            before = releases.pop()
            promoted, came = before.promoted or promoted, before.commit
        releases.append(Named(release=release, promoted=promoted, digest=digest, commit=came))
    return {place: releases for place, releases in past.items() if releases}
