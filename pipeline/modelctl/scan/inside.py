"""What would run when a file is loaded, looked for on all levels of what is packed inside it; nothing is loaded.

What is stored in an archive is read where it lies; temporary space is taken only for archives inside what is packed.
What could not be looked at is a `Problem`: the file itself is to blame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from modelctl.scan import keras, programs, torchscript
from modelctl.scan.clamd import Readable
from modelctl.scan.containers import Budget, BudgetError, Member, identify, unpack
from modelctl.scan.content import CHUNK_BYTES, GLANCE_BYTES, Content, Extent, UnreadableError
from modelctl.scan.pickles import may_be_pickle, walk_file
from modelctl.scan.problems import Problem, Reason
from modelctl.scan.walked import Pickle
from modelctl.scan.zip_directory import Oddity

RATIO_ALLOWANCE_BYTES = 256 << 20
"""What any file may unpack to, however small it is."""
MAX_NAMES_TOLD = 20
MAX_PROBLEMS = 1000
"""Of one file: an archive may have a hundred thousand members, each with several."""


@dataclass(frozen=True, kw_only=True)
class Depth:
    """How far archives are followed: levels of nesting, members, bytes, and bytes out for each byte in."""

    max_depth: int
    max_members: int
    max_unpacked_bytes: int
    max_ratio: int


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


class Reader(Protocol):
    """What reads the stream of a member."""

    def __call__(self, stream: Readable, where: str) -> object:
        """Read it, at most to its end; `where` names it."""


def look_inside(location: Path, examined: Examined, *, depth: Depth, scratch: Path, read: Reader | None = None) -> None:
    """Look for what would run when the file is loaded, in it and in all that is packed inside; nothing is loaded.

    `read` is given each member's stream, with checksums verified, and may stop early; the rest is read then. Without
    it, members that are stored are not read to their end: that is what a scanner of pickles does, at its speed. Raises
    `CannotDecideError` when the scratch folder is full, `OSError` of the file.
    """
    with location.open("rb", buffering=0) as file:
        content = Extent.of_file(file)
        allowed = min(depth.max_unpacked_bytes, content.size * depth.max_ratio + RATIO_ALLOWANCE_BYTES)
        budget = Budget(unpacked_bytes=allowed, members=depth.max_members)
        inside = _Inside(examined, budget=budget, max_depth=depth.max_depth, scratch=scratch, read=read)
        try:
            inside.look(content, examined.path, 0)
        except BudgetError as error:
            examined.problems.append(Problem(rule="archive-bomb", where=examined.path, detail=str(error)))


class _Inside:
    """All levels of one file."""

    def __init__(
        self, examined: Examined, *, budget: Budget, max_depth: int, scratch: Path, read: Reader | None
    ) -> None:
        self._examined = examined
        self._budget = budget
        self._max_depth = max_depth
        self._scratch = scratch
        self._read = read

    def refuse(self, where: str, reason: Reason) -> None:
        """Note a reason to refuse. Raises `BudgetError` when there are so many that one more tells nobody anything."""
        if len(self._examined.problems) >= MAX_PROBLEMS:
            raise BudgetError(f"{MAX_PROBLEMS} reasons to refuse it were found, and it was not looked at any further")
        self._examined.problems.append(Problem(rule=reason[0], where=where, detail=reason[1]))

    def look(self, content: Content, where: str, depth: int) -> None:
        """One content and all that is inside it. Raises `BudgetError`."""
        for reason in (
            *self._pickles(content),
            *keras.inspect(content, where),
            *programs.inspect(content, where, in_archive=depth > 0),
        ):
            self.refuse(where, reason)
        try:
            kind = identify(content)
            if kind is None:
                return
            if depth == self._max_depth:
                self.refuse(where, ("archive-bomb", f"archives nested more than {depth} deep"))
                return
            names = []
            for found in unpack(content, kind, budget=self._budget, scratch=self._scratch):
                if isinstance(found, Oddity):
                    self.refuse(where, (found.rule, found.detail))
                    continue
                names.append(found.name)
                self._member(found, f"{where}!{found.name}", depth)
            for reason in torchscript.inspect(names):
                self.refuse(where, reason)
        except BudgetError:
            raise
        except UnreadableError as error:
            self.refuse(where, ("archive", str(error)))

    def _member(self, member: Member, inner: str, depth: int) -> None:
        """Read a member once from its start to its end, where that is wanted or needed, and look inside."""
        self._examined.members += 1
        stream = member.first_reading(self._budget)
        try:
            if self._read is not None:
                self._read(stream, inner)
            if self._read is not None or not isinstance(member.content, Extent):
                while stream.read(CHUNK_BYTES):
                    pass
        except BudgetError:
            raise
        except UnreadableError as error:
            self.refuse(inner, ("archive", f"it can't be read: {error}"))
        self._examined.unpacked_bytes += member.content.size
        self.look(member.content, inner, depth + 1)

    def _pickles(self, content: Content) -> Iterator[Reason]:
        if content.size > GLANCE_BYTES and not may_be_pickle(content.peek(0, GLANCE_BYTES)):
            return
        with content.open() as stream:
            try:
                pickles = walk_file(stream)
            except ValueError as error:
                yield "numpy-header", str(error)
                return
        self._examined.pickles += len(pickles)
        yield from _of_pickles(pickles)


def _of_pickles(pickles: list[Pickle]) -> Iterator[Reason]:
    told: set[tuple[str, str]] = set()
    for pickle in pickles:
        for item in pickle.imports:
            if item.harmless or (item.module, item.name) in told:
                continue
            told.add((item.module, item.name))
            if len(told) > MAX_NAMES_TOLD:
                continue
            name = f"{_shown(item.module)}.{_shown(item.name)}"
            verb, _, manner = item.how.partition(" ")
            words = f"{verb} {name} {manner}".rstrip()
            yield "pickle-import", f"a pickle that {words} at byte {item.offset}"
        if pickle.problem is not None:
            yield "pickle-broken", pickle.problem
    if len(told) > MAX_NAMES_TOLD:
        more = f"a pickle that imports {len(told) - MAX_NAMES_TOLD} more names that are not known to be harmless"
        yield "pickle-import", more
    if pickles:
        yield "pickle", f"a pickle, from byte {pickles[0].start}"


def _shown(name: str) -> str:
    return ascii(name[:120])[1:-1]
