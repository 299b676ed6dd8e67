"""lm-eval's tasks by name: of a folder that the policy names, those that ship with the program, or lm-eval's own.

Used in the isolated child only: lm-eval is imported, and a task file may name Python beside it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

SHIPPED = Path(__file__).parent / "tasks"


def load(names: Sequence[str], *, folder: Path | None) -> dict[str, Any]:
    """Every single task below the given names, by name, its data loaded. Where a name is in the folder, that is it.

    Raises `ValueError` for a name that nobody knows and for a task that isn't multiple choice.
    """
    from lm_eval.tasks import TaskManager

    found: dict[str, Any] = {}
    missing = list(names)
    for home in filter(None, (folder, SHIPPED)):
        manager = TaskManager(include_path=str(home), include_defaults=False)
        here = [name for name in missing if name in manager.all_tasks]
        missing = [name for name in missing if name not in here]
        with _within(home):  # a task file names its data relative to its folder
            found |= manager.load(here)["tasks"] if here else {}
        unknown = sorted(set(missing) - shipped())
        if home == folder and unknown:
            raise ValueError(f"no task {', '.join(unknown)} in {folder}; it has {', '.join(manager.all_tasks)}")
    if missing:
        manager = TaskManager()
        unknown = sorted(set(missing) - set(manager.all_tasks))
        if unknown:
            raise ValueError(f"lm-eval knows no task {', '.join(unknown)}")
        found |= manager.load(missing)["tasks"]
    for name, task in found.items():
        if task.OUTPUT_TYPE != "multiple_choice":
            raise ValueError(
                f"task {name} is {task.OUTPUT_TYPE}; only multiple_choice tasks compare document by document"
            )
    return found


def shipped() -> frozenset[str]:
    """The names of the tasks that come with the program."""
    return frozenset(path.stem for path in SHIPPED.glob("*.yaml"))


def subject(task_name: str, document: Mapping[str, Any]) -> str:
    """What a document is about: its own word for it, else its task."""
    return str(document.get("subject") or task_name)


@contextlib.contextmanager
def _within(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
