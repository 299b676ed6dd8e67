"""All rules over all folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modelctl.rollout.lint.folder import Fault, folders, read_folder
from modelctl.rollout.lint.measured import check_measured
from modelctl.rollout.lint.pods import check_pods
from modelctl.rollout.lint.strategy import check_strategy


@dataclass(frozen=True, kw_only=True)
class Linted:
    """What one run saw."""

    folders: int
    manifests: int
    faults: tuple[Fault, ...]


def lint(root: Path) -> Linted:
    """Look at every folder of manifests at or below `root`; paths in faults start there.

    Raises `InputError` when there is nothing to look at, `CannotDecideError` where PromQL can't be parsed.
    """
    root = root.resolve()
    faults: list[Fault] = []
    manifests = 0
    found = folders(root)
    for path in found:
        folder = read_folder(path, base=root)
        manifests += len(folder.manifests)
        faults += [*folder.faults, *check_strategy(folder), *check_pods(folder), *check_measured(folder)]
    ordered = sorted(faults, key=lambda fault: (fault.path, fault.line, fault.rule))
    return Linted(folders=len(found), manifests=manifests, faults=tuple(ordered))
