"""Promote, abort, roll back: what a person decides about a canary, as one commit that says who, which digest and why.

Argo Rollouts moves pods; git says what is meant. `promote` marks the deployed release as the stable one. `abort` and
`rollback` put back the manifests byte for byte as they were when the earlier release was deployed last, as a new commit
on top, which Argo CD's own syncing can't undo.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from modelctl.errors import InputError, RefusedError
from modelctl.git import Git
from modelctl.model.release import parse_release_id
from modelctl.registry.records import load_record
from modelctl.rollout.changes import Change, changes_to, commit_changes, current, reason_trailer, require_clean
from modelctl.rollout.environment import environments_folder, load_environment
from modelctl.rollout.past import deployments_of, with_promotion
from modelctl.rollout.published import parse_published
from modelctl.rollout.standing import Standing, named_in, standing_of, standings
from modelctl.rollout.upstream import require_current
from modelctl.rollout.words import (
    ABORTED_TRAILER,
    DIGEST_TRAILER,
    ENVIRONMENT_TRAILER,
    PROMOTED_TRAILER,
    PUBLISHED_FILE,
    RELEASE_TRAILER,
    ROLLED_BACK_TRAILER,
    ROLLOUT_FILE,
)

Verb = Literal["promote", "abort", "rollback"]


@dataclass(frozen=True, kw_only=True)
class Steered:
    """What a decision wrote, or would write."""

    verb: Verb
    environment: str
    stable: str
    """The release that is stable afterwards, `name@version`."""
    left: str | None
    """The release that is served no longer."""
    tree_digest: str
    commit: str | None
    """None for a dry run, and when nothing had to change."""
    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    @property
    def diff(self) -> str:
        """Unified diff of all changes."""
        return "".join(change.diff for change in self.changes)


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is asked for."""

    name: str
    """The model's name, without a version."""
    environment: str
    reason: str | None = None
    dry_run: bool = False


def promote(root: Path, order: Order) -> Steered:
    """Say that the deployed release is stable. Raises `InputError`, `RefusedError`, `GitError`."""
    place = _Place.of(root, order)
    standing = place.standing
    digest = place.recorded_digest(standing.deployed)
    if standing.digest != digest:
        raise RefusedError(
            f"{order.environment} deploys {standing.digest} as {standing.deployed}, whose record says {digest}",
            remedy=f"modelctl audit {standing.deployed} --verify",
        )
    path = place.folder / ROLLOUT_FILE
    text = with_promotion(current(path) or "", standing.deployed)
    return place.carry_out(
        "promote",
        standing.deployed,
        digest,
        wanted={path: text},
        left=standing.before if not standing.promoted else None,
        notes=(
            f"Argo Rollouts ends the canary by itself after its last step; kubectl argo rollouts promote "
            f"{standing.folder} -n {place.namespace} ends its pauses now",
        ),
    )


def abort(root: Path, order: Order) -> Steered:
    """Withdraw the canary: the stable release's manifests are put back. Raises as `promote` does."""
    place = _Place.of(root, order)
    canary = place.standing.canary
    if canary is None:
        raise InputError(
            f"{order.environment} has no canary of {order.name}: {place.standing.deployed} is stable",
            remedy=f"modelctl rollback {order.name} --env {order.environment} puts the release before it back",
        )
    return place.put_back("abort", place.standing.stable, left=canary)


def rollback(root: Path, order: Order, *, to: str | None = None) -> Steered:
    """Put back the last release that was served before, or version `to` of those. Raises as `promote` does."""
    place = _Place.of(root, order)
    standing = place.standing
    earlier = deployments_of(root, standing)
    served = [item for item in earlier if item.release != standing.deployed]
    if to is not None:
        wanted = f"{order.name}@{to}"
        if wanted == standing.deployed:
            raise InputError(f"{order.environment} serves {wanted} already")
        if wanted not in [item.release for item in served]:
            before = ", ".join(dict.fromkeys(item.release for item in served)) or "nothing else"
            raise InputError(
                f"{order.environment} never served {wanted}; before {standing.deployed} it served {before}",
                remedy=f"a release that is new here goes out as a canary: modelctl rollout {wanted} "
                f"--env {order.environment}",
            )
        return place.put_back("rollback", wanted, left=standing.deployed)
    if standing.canary is not None:
        return place.put_back("rollback", standing.stable, left=standing.deployed)
    good = [item.release for item in served if not item.withdrawn]
    if not good:
        raise InputError(
            f"{standing.deployed} is the only release that {order.environment} ever kept: there is nothing to go "
            "back to",
            remedy=f"roll out another one: modelctl rollout {order.name}@VERSION --env {order.environment}",
        )
    return place.put_back("rollback", good[0], left=standing.deployed)


@dataclass(frozen=True, kw_only=True)
class _Place:
    root: Path
    git: Git
    order: Order
    standing: Standing
    folder: Path
    namespace: str

    @classmethod
    def of(cls, root: Path, order: Order) -> _Place:
        root = root.resolve()
        namespace = load_environment(root, order.environment).namespace
        standing = standing_of(standings(root), order.name, order.environment)
        folder = environments_folder(root) / order.environment / standing.folder
        git = Git.containing(root)
        require_clean(git, folder, root / PUBLISHED_FILE)
        return cls(root=root, git=git, order=order, standing=standing, folder=folder, namespace=namespace)

    def recorded_digest(self, release: str) -> str:
        """What the record of a release says that its bytes are."""
        return load_record(self.root, *parse_release_id(release)).served.tree_digest

    def put_back(self, verb: Verb, release: str, *, left: str) -> Steered:
        """The manifests as they were when `release` was deployed here last."""
        digest = self.recorded_digest(release)
        commit, files = self._files_of(release)
        named = named_in(files[ROLLOUT_FILE])
        if named != (release, digest):
            raise RefusedError(
                f"{release}: the manifests of {commit[:12]} deploy {named and named[1]}, its record says {digest}",
                remedy=f"modelctl audit {release} --verify; then modelctl rollout {release} --env "
                f"{self.order.environment} renders them anew",
            )
        self._require_allowed(release, digest)
        there = {path.name for path in self.folder.iterdir()} | files.keys()
        wanted = {self.folder / name: files.get(name) for name in sorted(there)}
        wanted[self.folder / ROLLOUT_FILE] = with_promotion(files[ROLLOUT_FILE], release)
        return self.carry_out(verb, release, digest, wanted=wanted, left=left, notes=self._notes(commit))

    def carry_out(
        self,
        verb: Verb,
        release: str,
        digest: str,
        *,
        wanted: Mapping[Path, str | None],
        left: str | None,
        notes: tuple[str, ...],
    ) -> Steered:
        changes = changes_to(self.root, wanted)
        environment = self.order.environment
        commit = None
        if changes:
            notes = (*notes, *require_current(self.git, self.folder))
            if not self.order.dry_run:
                commit = commit_changes(
                    self.git, self.root, changes, _subject(verb, release, left, environment),
                    trailers=self._trailers(verb, release, digest, left),
                )  # fmt: skip
        return Steered(
            verb=verb,
            environment=environment,
            stable=release,
            left=left,
            tree_digest=digest,
            commit=commit,
            changes=changes,
            notes=notes if changes else (),
        )

    def _files_of(self, release: str) -> tuple[str, Mapping[str, str]]:
        """The commit that deployed a release here last, and the folder's files at it."""
        found = [item.commit for item in deployments_of(self.root, self.standing) if item.release == release]
        if not found:
            raise InputError(
                f"git holds no manifests of {release} in {self.folder}",
                remedy="git fetch --unshallow, if this clone is shallow; else modelctl rollout renders them anew",
            )
        commit = found[0]
        inside = self.folder.relative_to(self.git.root.resolve()).as_posix()
        paths = self.git.run("ls-tree", "-z", "--name-only", "--full-tree", commit, f"{inside}/").split("\0")[:-1]
        contents = self.git.blobs([f"{commit}:{path}" for path in paths])
        return commit, {Path(path).name: (text or b"").decode() for path, text in zip(paths, contents, strict=True)}

    def _require_allowed(self, release: str, digest: str) -> None:
        text = current(self.root / PUBLISHED_FILE)
        if text is not None and parse_published(text).releases.get(release) != digest:
            raise RefusedError(
                f"{PUBLISHED_FILE} does not let {release} in any more: the cluster would refuse its pods",
                remedy=f"modelctl rollout {release} --env {self.order.environment} decides on it anew",
            )

    def _notes(self, commit: str) -> tuple[str, ...]:
        file = self.folder.parent / "environment.yaml"
        changed = self.git.run("log", "-1", "--format=%h", f"{commit}..HEAD", "--", str(file)).strip()
        if not changed:
            return ()
        return (
            f"environment.yaml has changed since ({changed}): these are the manifests of {commit[:12]}; "
            "modelctl rollout renders them anew",
        )

    def _trailers(self, verb: Verb, release: str, digest: str, left: str | None) -> Mapping[str, str]:
        trailers = {
            RELEASE_TRAILER: release,
            DIGEST_TRAILER: digest,
            ENVIRONMENT_TRAILER: self.order.environment,
            PROMOTED_TRAILER: release,
        }
        if left is not None and verb != "promote":
            trailers[ABORTED_TRAILER if verb == "abort" else ROLLED_BACK_TRAILER] = left
        return {**trailers, **reason_trailer(self.order.reason)}


def _subject(verb: Verb, release: str, left: str | None, environment: str) -> str:
    match verb:
        case "promote":
            return f"Promote {release} in {environment}"
        case "abort":
            return f"Abort {left} in {environment}: back to {release}"
        case "rollback":
            return f"Roll back {environment} from {left} to {release}"
