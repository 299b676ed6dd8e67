"""Files that appear whole or not at all, and the folder that a registry repository begins at."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from modelctl.errors import InputError

SETTINGS_FILE = "modelctl.yaml"


def find_root(start: Path) -> Path:
    """The nearest folder at or above `start` that holds modelctl.yaml or `.git`; `start` itself when there is none."""
    start = start.resolve()
    for marker in (SETTINGS_FILE, ".git"):
        for folder in (start, *start.parents):
            if (folder / marker).exists():
                return folder
    return start


def write_whole(path: Path, content: str | bytes, *, mode: int = 0o644) -> None:
    """Write a file in one step: a reader sees the old one or the new one. Raises `InputError` without its folder."""
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist", remedy=f"mkdir -p {path.parent}")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
