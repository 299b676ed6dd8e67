"""What one model's place in an environment has served before, newest first, and what became of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelctl.errors import InputError
from modelctl.git import Git
from modelctl.rollout.standing import ENVIRONMENTS, Standing, is_promoted, named_in
from modelctl.rollout.words import (
    ABORTED_TRAILER,
    ENVIRONMENT_TRAILER,
    PROMOTED_ANNOTATION,
    PROMOTED_TRAILER,
    RELEASE_ANNOTATION,
    ROLLED_BACK_TRAILER,
    ROLLOUT_FILE,
)

_DECISIONS = (PROMOTED_TRAILER, ABORTED_TRAILER, ROLLED_BACK_TRAILER)
_RELEASE_LINE = re.compile(rf"^( +){re.escape(RELEASE_ANNOTATION)}: (\S+)\n", re.MULTILINE)
_PROMOTED_LINE = re.compile(rf"^ +{re.escape(PROMOTED_ANNOTATION)}: .*\n", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A commit that put a release in its place."""

    release: str
    commit: str
    withdrawn: bool
    """The last that git says of the release here is that it was aborted or rolled back."""


def deployments_of(root: Path, standing: Standing) -> tuple[Deployment, ...]:
    """Every release that the place has served, the newest commit first. Raises `GitError`."""
    git = Git(root.resolve())
    path = f"{ENVIRONMENTS}/{standing.environment}/{standing.folder}/{ROLLOUT_FILE}"
    listed = git.run(
        *("-c", "log.showSignature=false", "log", "--topo-order", "--no-renames", "-m", "--first-parent"),
        *("--diff-filter=AMT", "--format=%H", "--", path),
    )
    commits = list(dict.fromkeys(listed.split()))
    contents = git.blobs([f"{commit}:./{path}" for commit in commits]) if commits else ()
    decided = _last_words(git, standing.environment)
    found = []
    for commit, content in zip(commits, contents, strict=True):
        named = named_in((content or b"").decode(errors="replace"))
        if named is not None:
            withdrawn = decided.get(named[0]) in (ABORTED_TRAILER, ROLLED_BACK_TRAILER)
            found.append(Deployment(release=named[0], commit=commit, withdrawn=withdrawn))
    return tuple(found)


def with_promotion(manifest: str, release: str) -> str:
    """A Rollout's text with the mark that its release is the stable one. Raises `InputError` for a strange text.

    The mark stands in the Rollout's own annotations and not in its pods', so that no pod is started for it.
    """
    text = _PROMOTED_LINE.sub("", manifest)
    found = _RELEASE_LINE.search(text)
    if found is None or found[2] != release:
        raise InputError(
            f"{ROLLOUT_FILE} has no line '{RELEASE_ANNOTATION}: {release}' to set the mark behind",
            remedy="was it edited by hand? modelctl rollout writes it anew",
        )
    return f"{text[: found.end()]}{found[1]}{PROMOTED_ANNOTATION}: {release}\n{text[found.end() :]}"


def still_promoted(rendered: str, there: str | None) -> str:
    """A newly rendered Rollout's text, which keeps the mark when what is there has it for the same release."""
    named = named_in(rendered)
    return with_promotion(rendered, named[0]) if named and is_promoted(there or "", named[0]) else rendered


def _last_words(git: Git, environment: str) -> Mapping[str, str]:
    """The newest decision about each release in an environment: the trailer that names it."""
    keys = ",".join(f"key={key}" for key in (ENVIRONMENT_TRAILER, *_DECISIONS))
    listed = git.run(
        *("-c", "log.showSignature=false", "log", "--topo-order", "--extended-regexp"),
        *(f"--grep=^({'|'.join(_DECISIONS)}): ", f"--format=%(trailers:{keys},separator=%x09)%x00"),
    )
    found: dict[str, str] = {}
    for entry in listed.split("\0"):
        trailers = _trailers(entry.strip().split("\t"))
        if trailers.get(ENVIRONMENT_TRAILER) == environment:
            for key in _DECISIONS:
                if key in trailers:
                    found.setdefault(trailers[key], key)
    return found


def _trailers(items: Sequence[str]) -> Mapping[str, str]:
    return dict(item.split(": ", 1) for item in items if ": " in item)
