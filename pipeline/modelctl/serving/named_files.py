"""The files that a team's own engine settings name: what the isolated engine must see beside the model.

`engine.command`, `engine.args` and `engine.env` are the team's and not the model's, so a chat template, an adapter or a
folder of Python that they name is made readable, under its own name and read-only. A name that can't be meant, since
the engine runs in an empty folder of its own, is an error before it starts.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

from modelctl.errors import CannotDecideError
from modelctl.isolation import SYSTEM_PATHS
from modelctl.settings import Engine

_NOT_BOUND = ("/", "/tmp", "/dev", "/proc", "/run", "/var", "/home", "/root", *SYSTEM_PATHS)  # noqa: S108 - not opened
"""Folders that are there already, or would undo the isolation."""
_NO_FILES = ("--uds", "--root-path")
"""Flags whose value looks like a path and is none that is read."""


def named_files(settings: Engine) -> tuple[Path, ...]:
    """The files and folders that the settings name by absolute paths and that exist.

    Raises `CannotDecideError` for a file in `engine.args` that is missing, or is named from a folder that the engine
    does not run in.
    """
    found = dict.fromkeys(_existing(settings))
    return tuple(path for path in found if str(path) not in _NOT_BOUND and not _inside_system(path))


def _existing(settings: Engine) -> Iterator[Path]:
    try:
        words = shlex.split(settings.command or "")[1:]
    except ValueError:
        words = []  # whoever starts the engine says why
    for word in words:
        yield from (Path(part) for part in _parts(word) if part.startswith("/") and Path(part).exists())
    for value in settings.env.values():
        yield from (Path(part) for part in value.split(":") if part.startswith("/") and Path(part).exists())
    before = ""
    for word in settings.args:
        flag, before = (word.partition("=")[0] if word.startswith("--") else before), word
        if flag in _NO_FILES:
            continue
        for part in _parts(word):
            _refuse_unreachable(part)
            if part.startswith("/") and Path(part).exists():
                yield Path(part)


def _parts(word: str) -> Iterator[str]:
    """What may be a path in an argument: itself, what stands behind a `=`, strings inside JSON."""
    if word.startswith(("{", "[")):
        with contextlib.suppress(ValueError):
            yield from _strings(json.loads(word))
        return
    if not word.startswith("-"):
        yield word
    name, equals, value = word.partition("=")
    if equals and "/" not in name:
        yield from _parts(value)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _refuse_unreachable(part: str) -> None:
    path = Path(part)
    if part.startswith("/"):
        if path.suffix and not path.exists():
            raise CannotDecideError(f"engine.args names {part}, which is not there", remedy="mend engine.args")
    elif part.startswith(("~/", "./", "../")) or (path.suffix and path.is_file()):
        raise CannotDecideError(
            f"engine.args names {part}: the engine runs in an empty folder of its own and finds no such file",
            remedy=f"write the absolute path: {path.expanduser().resolve()}",
        )


def _inside_system(path: Path) -> bool:
    return any(path.is_relative_to(system) for system in ("/dev", "/proc", *SYSTEM_PATHS))
