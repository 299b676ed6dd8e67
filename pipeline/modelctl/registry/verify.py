"""Whether a folder holds exactly the bytes of a release."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modelctl.model.tree import PathProblem, Tree
from modelctl.registry.manifest import Served


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What differs; paths relative to the folder, sorted."""

    folder: Path
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    changed: tuple[str, ...]
    problems: tuple[PathProblem, ...]

    @property
    def whole(self) -> bool:
        """Nothing missing, nothing extra, nothing changed."""
        return not (self.missing or self.extra or self.changed or self.problems)

    def differences(self) -> tuple[str, ...]:
        """One line for each path that differs."""
        return (
            *(f"missing: {path}" for path in self.missing),
            *(f"extra: {path}" for path in self.extra),
            *(f"changed: {path}" for path in self.changed),
            *(f"{problem.kind}: {problem.path} {problem.detail}" for problem in self.problems),
        )


def compare(served: Served, tree: Tree) -> Verification:
    """Compare a folder that was hashed with what is served."""
    wanted = served.tree.by_path
    return Verification(
        folder=tree.root,
        missing=tuple(sorted(wanted.keys() - tree.by_path.keys())),
        extra=tuple(sorted(tree.by_path.keys() - wanted.keys())),
        changed=tuple(path for path, entry in sorted(wanted.items()) if tree.by_path.get(path, entry) != entry),
        problems=tree.problems,
    )
