"""All rules over all folders, by a process a core where there are many.

Reading YAML does not let go of Python's lock, so threads would take turns. A process that ends otherwise than it should
costs time, never a fault: its folders are looked at here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from modelctl.rollout.lint.folder import folders
from modelctl.rollout.lint.look import Linted, answer, look_at, request

LOOK = "modelctl.rollout.lint.look"
FOLDERS_A_PROCESS = 50
"""With fewer for each, starting another process takes longer than it saves."""


def lint(root: Path) -> Linted:
    """Look at every folder of manifests at or below `root`; paths in faults start there.

    Raises `InputError` when there is nothing to look at, `CannotDecideError` where PromQL can't be parsed.
    """
    root = root.resolve()
    found = folders(root)
    processes = max(1, min(len(os.sched_getaffinity(0)), len(found) // FOLDERS_A_PROCESS))
    shares = [found[number::processes] for number in range(processes)]
    looked = list(_side_by_side(shares, root))
    ordered = sorted(
        (fault for part in looked for fault in part.faults), key=lambda fault: (fault.path, fault.line, fault.rule)
    )
    return Linted(folders=len(found), manifests=sum(part.manifests for part in looked), faults=tuple(ordered))


def _side_by_side(shares: Sequence[Sequence[Path]], base: Path) -> Iterator[Linted]:
    """What each share shows: the first is looked at here, each other one by a process."""
    own, *others = shares
    with ThreadPoolExecutor(max(1, len(others))) as pool:
        asked = [pool.submit(_by_process, share, base) for share in others]
        yield look_at(own, base=base)
        for share, found in zip(others, asked, strict=True):
            yield found.result() or look_at(share, base=base)


def _by_process(share: Sequence[Path], base: Path) -> Linted | None:
    """What a process of `look` found; None when it ended otherwise than it should, or said something else."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-m", LOOK], input=request(share, base=base),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", text=True, check=True,
        )  # fmt: skip
        found = answer(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError, TypeError, KeyError):
        return None
    return found if found.folders == len(share) else None
