"""One file of a hostile model, examined completely: clamd over its bytes, and `inside` over all that would run.

Every byte of the file is hashed on its way to clamd, so that the result is about the bytes the tree digest names.
What could not be looked at is in the result by name: as a `Problem` when the file itself is to blame, as `undecided`
when clamd is.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

from modelctl.errors import CannotDecideError
from modelctl.scan.clamd import Clamd, Clean, Found, NotScanned, Readable
from modelctl.scan.inside import Depth, Examined, look_inside
from modelctl.scan.problems import Problem
from modelctl.scan.windows import Windows, scan_stream


class Examiner:
    """Examines files one by one; several threads may share it."""

    def __init__(self, clamd: Clamd, *, windows: Windows, depth: Depth, scratch: Path) -> None:
        self._clamd = clamd
        self._windows = windows
        self._depth = depth
        self._scratch = scratch

    def examine(self, location: Path, path: str, *, advance: Callable[[float], None]) -> Examined:
        """Look into one file of the tree; `path` is its name there. Trouble of clamd or the disk is in `undecided`."""
        examined = Examined(path=path)
        started = time.monotonic()
        try:
            with location.open("rb", buffering=0) as stream:
                hashed = _Hashed(stream)
                examined.windows = self._scan(hashed, path, examined, advance)
            examined.sha256, examined.size_bytes = hashed.sha256.hexdigest(), hashed.size_bytes
            look_inside(
                location,
                examined,
                depth=self._depth,
                scratch=self._scratch,
                read=lambda stream, where: self._scan(stream, where, examined),
            )
        except CannotDecideError as error:
            examined.undecided.append(error.message)
        except OSError as error:
            examined.undecided.append(f"{path}: {error.strerror or error}")
        examined.seconds = time.monotonic() - started
        return examined

    def _scan(
        self, stream: Readable, where: str, examined: Examined, advance: Callable[[float], None] = lambda _: None
    ) -> int:
        started = time.monotonic()
        try:
            scanned = scan_stream(self._clamd, stream, windows=self._windows, advance=advance)
        finally:
            examined.clamd_seconds += time.monotonic() - started
        match scanned.reply:
            case Found(signature=signature):
                part = (
                    f" in {scanned.found_in} of {scanned.windows} windows, first in the one that begins at byte "
                    f"{scanned.offset}"
                    if scanned.windows > 1
                    else ""
                )
                examined.problems.append(
                    Problem(rule="signature", where=where, detail=f"clamd found {signature}{part}")
                )
            case NotScanned(reason=reason):
                examined.undecided.append(f"{where}: not scanned: {reason}")
            case Clean():
                pass
        return scanned.windows


class _Hashed:
    """A stream that is hashed and counted while it is read."""

    def __init__(self, stream: Readable) -> None:
        self.sha256 = hashlib.sha256()
        self.size_bytes = 0
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        part = self._stream.read(size)
        self.sha256.update(part)
        self.size_bytes += len(part)
        return part
