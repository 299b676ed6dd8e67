"""Which releases may go: those that no environment serves or would go back to, and that no policy keeps.

Environments are looked at in every branch and working tree, since any of them may be what a cluster follows. The
newest versions of each name always stay. A release is retired by a commit of its own, before anything is removed: its
record stays, `retired.yaml` joins it, and the cluster's list of what may be served loses it.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelctl.admission.policy import load_policy
from modelctl.errors import CannotDecideError, InputError
from modelctl.files import write_whole
from modelctl.git import Git, GitError
from modelctl.model.release import Metadata, release_folder
from modelctl.registry.names import RETIRED_FILE, RETIRED_TRAILER
from modelctl.registry.retired import Retired
from modelctl.registry.summary import Summary, summaries
from modelctl.registry.versions import version_order
from modelctl.rollout.changes import one_line, reason_trailer
from modelctl.rollout.published import without_release
from modelctl.rollout.standing import ENVIRONMENTS, served_anywhere
from modelctl.rollout.words import DIGEST_TRAILER, PUBLISHED_FILE


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What is kept beside what is served."""

    keep_last: int = 3
    """Newest versions of each name that are no pre-releases; at least one."""
    older_than: datetime.timedelta = datetime.timedelta(days=90)
    """Younger releases stay."""
    no_environments: bool = False
    """A person says that nothing is served anywhere, when git knows of no environment that serves."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One published release, and why it stays."""

    release: Summary
    kept_because: tuple[str, ...]
    """Empty when it may go."""


def judge(root: Path, rules: Rules, now: datetime.datetime) -> tuple[Judged, ...]:
    """Every published release of a registry repository with the reasons to keep it.

    Raises `CannotDecideError` when what is served can't be known, `InputError`, `GitError`.
    """
    if rules.keep_last < 1:
        raise InputError("at least the newest version of each name is kept", remedy="--keep-last 1 or more")
    served = _served(root, rules)
    everything = summaries(root)
    published = [item for item in everything if item.state == "published"]
    newest = _newest(published, rules.keep_last)
    sources = _sources(root, everything)
    retention = {policy: _retention(root, policy) for policy in {item.policy for item in published} if policy}
    found = []
    for item in published:
        reasons = [f"served: {place}" for place in served.get(item.id, ())]
        if item.id in newest:
            reasons.append(newest[item.id])
        age = now - _time(item.published_at)
        if age < rules.older_than:
            reasons.append(f"published {age.days} days ago, kept for {rules.older_than.days}")
        kept = retention.get(item.policy or "")
        if isinstance(kept, str):
            reasons.append(kept)
        elif kept is not None and age < kept:
            reasons.append(f"policy '{item.policy}' keeps it for {kept.days} days")
        reasons += [f"is a source of {other}" for other in sources.get(item.uri or "", ()) if other != item.id]
        found.append(Judged(release=item, kept_because=tuple(reasons)))
    return tuple(found)


def require_current(root: Path) -> None:
    """Fetch every remote. Raises `InputError` when this branch is behind, `CannotDecideError` when nobody answers."""
    git = Git.containing(root)
    if not git.run("remote").strip():
        return
    try:
        git.run("fetch", "--all", "--quiet")
    except GitError as error:
        raise CannotDecideError(
            f"what other branches serve can't be asked: {error}", remedy="git fetch --all, then run it again"
        ) from error
    behind = git.run("rev-list", "--count", "HEAD..@{upstream}", check=False).strip()
    if behind not in ("", "0"):
        raise InputError(f"this branch is {behind} commits behind its upstream", remedy="git pull")


def retire(root: Path, release: Summary, *, reason: str, now: datetime.datetime) -> str:
    """Say in git that a release's bytes are given up; returns the commit. Raises `InputError`, `GitError`."""
    git = Git.containing(root)
    folder = release_folder(root, release.name, release.version)
    allowed = root / PUBLISHED_FILE
    paths = [folder, *([allowed] if allowed.exists() else [])]
    changed = git.run("status", "--porcelain", "--", *map(str, paths)).strip()
    if changed:
        raise InputError(
            f"{changed.splitlines()[0][3:]}: changed and not committed, and this would write there",
            remedy="commit or restore it, then run the same command again",
        )
    if release.tree_digest is None:
        raise AssertionError("a published release has a digest")
    file = Retired(
        metadata=Metadata(name=release.name, version=release.version),
        tree_digest=release.tree_digest,
        retired_at=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        reason=one_line(reason),
    )
    write_whole(folder / RETIRED_FILE, file.to_yaml())
    if allowed.exists():
        text = allowed.read_text(encoding="utf-8")
        changed_text = without_release(text, release.id)
        if changed_text != text:
            write_whole(allowed, changed_text)
    commit = git.commit(
        paths,
        f"Retire {release.id}",
        body="Its bytes are given up; its record stays.",
        trailers={RETIRED_TRAILER: release.id, DIGEST_TRAILER: release.tree_digest, **reason_trailer(reason)},
    )
    if commit is None:
        raise InputError(f"git has nothing to commit in {folder}", remedy=f"git check-ignore -v {folder}")
    return commit


def _served(root: Path, rules: Rules) -> Mapping[str, tuple[str, ...]]:
    git = Git.containing(root)
    if git.run("rev-parse", "--is-shallow-repository").strip() == "true":
        raise CannotDecideError(
            "this clone is shallow: what was served before is not in it", remedy="git fetch --unshallow --tags"
        )
    served = served_anywhere(root)
    if not served and not rules.no_environments:
        raise CannotDecideError(
            f"no branch and no working tree serves anything ({ENVIRONMENTS}/ENV/NAME), so what is in use is not known",
            remedy="fetch the branches that do; if nothing is served anywhere, say so: --no-environments",
        )
    return served


def _newest(published: Sequence[Summary], keep_last: int) -> Mapping[str, str]:
    reasons = {}
    for name in {item.name for item in published}:
        versions = [item for item in published if item.name == name]
        final = [item for item in versions if "-" not in item.version] or versions
        final.sort(key=lambda item: version_order(item.version), reverse=True)
        for number, item in enumerate(final[:keep_last]):
            reasons[item.id] = "the newest version" if not number else f"one of the {keep_last} newest versions"
    return reasons


def _sources(root: Path, everything: Iterable[Summary]) -> Mapping[str, tuple[str, ...]]:
    """The releases whose release file names another one's place in the bucket, by that place."""
    uris = [item.uri for item in everything if item.uri is not None]
    found: dict[str, list[str]] = {}
    for item in everything:
        path = release_folder(root, item.name, item.version) / "release.yaml"
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() and item.state != "retired" else ""
        if "s3://" in text:
            for uri in uris:
                if uri in text:
                    found.setdefault(uri, []).append(item.id)
    return {uri: tuple(releases) for uri, releases in found.items()}


def _retention(root: Path, policy: str) -> datetime.timedelta | str | None:
    """How long a policy keeps what was published under it, or why that can't be known."""
    try:
        retention = load_policy(policy, root).policy.spec.retention
    except InputError as error:
        return f"policy '{policy}' can't be read, so it may keep it: {error.message}"
    return datetime.timedelta(days=retention.days) if retention is not None else None


def _time(text: str | None) -> datetime.datetime:
    if text is None:
        raise AssertionError("a published release has a time")
    return datetime.datetime.fromisoformat(text)
