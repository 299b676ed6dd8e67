"""One file of a hostile model, looked into completely: clamd over its bytes, pickles in it, and the same for all that
is packed inside.

Every byte of the file is hashed on its way to clamd, so that the result is about the bytes the tree digest names.
What could not be looked at is in the result by name: as a `Problem` when the file itself is to blame, as `undecided`
when clamd is.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

from modelctl.errors import CannotDecideError
from modelctl.scan.clamd import Clamd, Clean, Found, NotScanned, Readable
from modelctl.scan.containers import Budget, BudgetError, UnreadableError, identify, unpack
from modelctl.scan.opcodes import Pickle
from modelctl.scan.pickles import walk_file
from modelctl.scan.windows import Windows, scan_stream

Rule = Literal["signature", "pickle-import", "pickle-broken", "pickle", "keras-lambda", "archive", "archive-bomb"]

RATIO_ALLOWANCE_BYTES = 256 << 20
"""What any file may unpack to, however small it is."""
MAX_NAMES_TOLD = 20
_LAMBDA = (b'"class_name": "Lambda"', b'"class_name":"Lambda"')


@dataclass(frozen=True, kw_only=True)
class Depth:
    """How far archives are followed: levels of nesting, members, bytes, and bytes out for each byte in."""

    max_depth: int
    max_members: int
    max_unpacked_bytes: int
    max_ratio: int


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A reason to refuse. `where` names the members that lead to it: `model.pt!archive/data.pkl`."""

    rule: Rule
    where: str
    detail: str


@dataclass(kw_only=True)
class Examined:
    """What one file showed."""

    path: str
    sha256: str = ""
    """Of the bytes that clamd was sent."""
    size_bytes: int = 0
    windows: int = 0
    members: int = 0
    unpacked_bytes: int = 0
    pickles: int = 0
    seconds: float = 0.0
    clamd_seconds: float = 0.0
    """Of `seconds`, what went by while bytes were sent to clamd and its answers awaited."""
    problems: list[Problem] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)


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
            size = location.stat().st_size
            with location.open("rb", buffering=0) as stream:
                hashed = _Hashed(stream)
                examined.windows = self._scan(hashed, path, examined, advance)
            examined.sha256, examined.size_bytes = hashed.sha256.hexdigest(), hashed.size_bytes
            allowed = min(self._depth.max_unpacked_bytes, size * self._depth.max_ratio + RATIO_ALLOWANCE_BYTES)
            budget = Budget(unpacked_bytes=allowed, members=self._depth.max_members)
            self._look_inside(location, path, examined, budget, 0)
        except CannotDecideError as error:
            examined.undecided.append(error.message)
        except BudgetError as error:
            examined.problems.append(Problem(rule="archive-bomb", where=path, detail=str(error)))
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
                part = f" in the window that begins at byte {scanned.offset}" if scanned.windows > 1 else ""
                examined.problems.append(
                    Problem(rule="signature", where=where, detail=f"clamd found {signature}{part}")
                )
            case NotScanned(reason=reason):
                examined.undecided.append(f"{where}: not scanned: {reason}")
            case Clean():
                pass
        return scanned.windows

    def _look_inside(self, location: Path, where: str, examined: Examined, budget: Budget, depth: int) -> None:
        with location.open("rb") as stream:
            pickles = walk_file(stream)
            examined.pickles += len(pickles)
            examined.problems += _of_pickles(pickles, where)
            if _has_lambda(stream):
                detail = "a Keras model with a Lambda layer, which holds code that runs when it is loaded"
                examined.problems.append(Problem(rule="keras-lambda", where=where, detail=detail))
        try:
            kind = identify(location)
            if kind is None:
                return
            if depth == self._depth.max_depth:
                detail = f"archives nested more than {depth} deep"
                examined.problems.append(Problem(rule="archive-bomb", where=where, detail=detail))
                return
            for member in unpack(location, kind, budget=budget, scratch=self._scratch):
                if isinstance(member, UnreadableError):
                    examined.problems.append(Problem(rule="archive", where=where, detail=str(member)))
                    continue
                inner = f"{where}!{member.name}"
                examined.members += 1
                examined.unpacked_bytes += member.location.stat().st_size
                with member.location.open("rb", buffering=0) as content:
                    self._scan(content, inner, examined)
                self._look_inside(member.location, inner, examined, budget, depth + 1)
        except BudgetError:
            raise
        except UnreadableError as error:
            examined.problems.append(Problem(rule="archive", where=where, detail=str(error)))


def _of_pickles(pickles: list[Pickle], where: str) -> Iterator[Problem]:
    told: set[tuple[str, str]] = set()
    for pickle in pickles:
        for item in pickle.imports:
            if item.harmless or (item.module, item.name) in told:
                continue
            told.add((item.module, item.name))
            if len(told) > MAX_NAMES_TOLD:
                continue
            detail = f"a pickle that imports {_shown(item.module)}.{_shown(item.name)} at byte {item.offset}"
            yield Problem(rule="pickle-import", where=where, detail=detail)
        if pickle.problem is not None:
            yield Problem(rule="pickle-broken", where=where, detail=pickle.problem)
    if len(told) > MAX_NAMES_TOLD:
        more = f"a pickle that imports {len(told) - MAX_NAMES_TOLD} more names that are not known to be harmless"
        yield Problem(rule="pickle-import", where=where, detail=more)
    if pickles:
        yield Problem(rule="pickle", where=where, detail=f"a pickle, from byte {pickles[0].start}")


def _shown(name: str) -> str:
    return ascii(name[:120])[1:-1]


def _has_lambda(stream: BinaryIO) -> bool:
    """Whether the bytes of an HDF5 file, or of the config.json inside a .keras archive, name a Lambda layer."""
    stream.seek(0)
    head = stream.read(64)
    if not head.startswith((b"\x89HDF\r\n\x1a\n", b'{"module": "keras')):
        return False
    before = head
    while block := stream.read(1 << 20):
        if any(mark in before[-64:] + block for mark in _LAMBDA):
            return True
        before = block
    return False


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
