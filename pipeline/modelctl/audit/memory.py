"""What earlier runs read and found out, so that the next one looks only at what is new.

Everything is kept under all that it follows from: object ids, which name bytes, and the program that looked. Of a
verification only what agreed is kept; a violation is found anew each time. The file lies in git's own folder, where no
branch and no pull request can put anything; whoever may write there may also write false objects, references and hooks,
so that it is trusted exactly as far as the clone itself. Another program, or a file that can't be read, starts afresh.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import modelctl
from modelctl import __version__
from modelctl.audit.history import History
from modelctl.files import write_whole

FILE = Path("modelctl", "audit.json")
ValueT = TypeVar("ValueT")
_DECIDES = ("audit", "admission", "registry", "rollout", "checks", "model", "documents.py", "git.py")


class Memory:
    """One run's view of what is remembered."""

    def __init__(self, path: Path | None) -> None:
        """`path`: the file; None remembers nothing."""
        self._path = path
        self._kept: dict[str, Any] = _read(path) if path is not None else {}
        self._used: dict[str, Any] = {}
        self._new = False
        self.recalled = 0
        """Releases that need no second look."""

    @classmethod
    def of(cls, history: History) -> Memory:
        """That of a clone, which its working trees share; nothing of a shallow one, whose ancestry is cut off."""
        if not history.head or history.shallow:
            return cls(None)
        git = history.git
        folder = Path(git.run("rev-parse", "--path-format=absolute", "--git-common-dir").strip())
        return cls(folder / FILE)

    def holds(self, key: str) -> bool:
        """Whether this was found to agree before."""
        if key in self._kept:
            self._used[key] = self._kept[key]
        return key in self._kept

    def recall(self, key: str) -> bool:
        """Whether a release was found to agree before; counted."""
        found = self.holds(key)
        self.recalled += found
        return found

    def keep(self, key: str, value: object = 1) -> None:
        """Remember."""
        self._kept[key] = self._used[key] = value
        self._new = True

    def known(self, key: str) -> Any:
        """What is kept under a key that is held."""
        return self._kept[key]

    def get(self, key: str, compute: Callable[[], ValueT]) -> ValueT:
        """What follows from the key alone: remembered, or computed now. Plain JSON values only."""
        if not self.holds(key):
            self.keep(key, compute())
        found: ValueT = self._kept[key]
        return found

    def save(self, *, whole: bool) -> bool:
        """Write the file; after a look at everything what was not used is forgotten. False when it can't be written."""
        if self._path is None or (not self._new and (not whole or len(self._used) == len(self._kept))):
            return True
        body = {"program": program(), "known": self._used if whole else self._kept}
        try:
            self._path.parent.mkdir(exist_ok=True)
            write_whole(self._path, json.dumps(body, separators=(",", ":")))
        except OSError:
            return False
        return True


def key_of(*parts: object) -> str:
    """The sha256 of what something follows from."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


@cache
def program() -> str:
    """What decides: the version, and the source of the modules that look."""
    digest = hashlib.sha256(__version__.encode())
    folder = Path(modelctl.__file__).parent
    for name in _DECIDES:
        for path in sorted((folder / name).rglob("*.py")) if (folder / name).is_dir() else [folder / name]:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _read(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_bytes())
        known = body["known"]
        return dict(known) if body["program"] == program() else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
