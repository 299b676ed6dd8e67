"""All rules over some folders, one after the other; run as a program, over those that its input names.

The program reads one JSON object (`base`, `folders`) and writes one (`manifests`, `faults`). `run` starts it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from modelctl.rollout.lint.folder import Fault, read_folder
from modelctl.rollout.lint.measured import check_measured
from modelctl.rollout.lint.pods import check_pods
from modelctl.rollout.lint.strategy import check_strategy


@dataclass(frozen=True, kw_only=True)
class Linted:
    """What one run saw."""

    folders: int
    manifests: int
    faults: tuple[Fault, ...]


def look_at(folders: Sequence[Path], *, base: Path) -> Linted:
    """Look at folders of manifests; paths in faults start at `base`.

    Raises `CannotDecideError` where PromQL can't be parsed.
    """
    faults: list[Fault] = []
    manifests = 0
    for path in folders:
        folder = read_folder(path, base=base)
        manifests += len(folder.manifests)
        faults += [*folder.faults, *check_strategy(folder), *check_pods(folder), *check_measured(folder)]
    return Linted(folders=len(folders), manifests=manifests, faults=tuple(faults))


def request(folders: Sequence[Path], *, base: Path) -> str:
    """What the program reads."""
    return json.dumps({"base": str(base), "folders": [str(folder) for folder in folders]})


def answer(text: str) -> Linted:
    """What the program wrote, read back. Raises `ValueError`, `TypeError`, `KeyError` for anything else."""
    found = json.loads(text)
    faults = tuple(Fault(**fault) for fault in found["faults"])
    return Linted(folders=found["folders"], manifests=found["manifests"], faults=faults)


def main() -> None:
    """The program."""
    asked = json.load(sys.stdin)
    found = look_at([Path(folder) for folder in asked["folders"]], base=Path(asked["base"]))
    faults = [fault.as_json() for fault in found.faults]
    json.dump({"folders": found.folders, "manifests": found.manifests, "faults": faults}, sys.stdout)


if __name__ == "__main__":
    main()
