"""The scratch folder of one admission; those of processes that were killed are swept by the next one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_folder(state: Path) -> Iterator[Path]:
    """An empty folder below `state/tmp` for the time of a `with` block."""
    parent = state / "tmp"
    parent.mkdir(exist_ok=True)
    _sweep(parent)
    with tempfile.TemporaryDirectory(dir=parent, prefix=f"{os.getpid()}-") as folder:
        yield Path(folder)


def _sweep(parent: Path) -> None:
    import psutil

    for folder in parent.iterdir():
        owner = folder.name.partition("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
