"""Whether a folder holds exactly the bytes of a release."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modelctl.errors import RefusedError
from modelctl.model.tree import PathProblem, scan_tree
from modelctl.progress import SILENT, Progress
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

    def refuse_unless_whole(self, release_id: str) -> None:
        """Raise `RefusedError` that lists the differences."""
        if not self.whole:
            lines = self.differences()
            shown = "; ".join(lines[:10]) + (f"; and {len(lines) - 10} more" if len(lines) > 10 else "")
            raise RefusedError(
                f"{self.folder} is not {release_id}: {shown}",
                remedy=f"modelctl pull {release_id} into a new folder",
            )


def verify_folder(served: Served, folder: Path, *, progress: Progress = SILENT) -> Verification:
    """Hash all of `folder` and compare it with what is served. Raises `InputError` for a missing or empty folder."""
    tree = scan_tree(folder, progress=progress, label="verify")
    wanted = served.tree.by_path
    return Verification(
        folder=folder,
        missing=tuple(sorted(wanted.keys() - tree.by_path.keys())),
        extra=tuple(sorted(tree.by_path.keys() - wanted.keys())),
        changed=tuple(path for path, entry in sorted(wanted.items()) if tree.by_path.get(path, entry) != entry),
        problems=tree.problems,
    )
