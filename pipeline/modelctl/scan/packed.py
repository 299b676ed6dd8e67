"""Small members of archives, for whoever looks for code, at any depth that the malware check follows by default.

Members over the limit come without their content: they are weights, and the malware check looks into them. What could
not be looked into is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from modelctl.scan.containers import Budget, BudgetError, Member, identify, unpack
from modelctl.scan.content import CHUNK_BYTES, Content, Extent, UnreadableError

MAX_MEMBER_BYTES = 4 << 20
MAX_MEMBERS = 20_000
MAX_TOTAL_BYTES = 2 << 30
"""What is unpacked of one file, all levels together."""
MAX_DEPTH = 5


Found = tuple[str, bytes | None]
"""Name and content of a member; None for one of over 4 MiB, unless it is an archive that is looked into."""


def small_members(location: Path, *, scratch: Path, unread: Callable[[str], None]) -> Iterator[Found]:
    """Every member of an archive; none for a file that is no archive. `unread` is told, in a sentence each, what could
    not be looked at.

    Raises `OSError` of the file, `CannotDecideError` when the scratch folder is full.
    """
    with location.open("rb", buffering=0) as file:
        inside = _Inside(scratch, unread)
        try:
            yield from inside.look(Extent.of_file(file), "", 0)
        except BudgetError:
            unread(f"not looked for code to its end: over {MAX_MEMBERS} members or {MAX_TOTAL_BYTES} bytes unpacked")


class _Inside:
    """All levels of one file."""

    def __init__(self, scratch: Path, unread: Callable[[str], None]) -> None:
        self._budget = Budget(unpacked_bytes=MAX_TOTAL_BYTES, members=MAX_MEMBERS)
        self._scratch = scratch
        self._unread = unread

    def look(self, content: Content, where: str, depth: int) -> Iterator[Found]:
        """The members of one content. Raises `BudgetError`."""
        try:
            kind = identify(content)
            if kind is None:
                return
            if depth == MAX_DEPTH:
                raise UnreadableError(f"archives nested more than {depth} deep")
            for found in unpack(content, kind, budget=self._budget, scratch=self._scratch):
                if isinstance(found, Member):
                    yield from self._member(found, f"{where}!{found.name}" if where else found.name, depth)
                elif found.rule == "archive":
                    self._tell(where, found.detail)
        except BudgetError:
            raise
        except UnreadableError as error:
            self._tell(where, str(error))

    def _member(self, member: Member, name: str, depth: int) -> Iterator[Found]:
        promised = member.content.size if member.entry is None else member.entry.size
        if promised > MAX_MEMBER_BYTES:
            if not isinstance(member.content, Extent):
                yield name, None
                return
            large = True
        else:
            content = bytearray()
            stream = member.first_reading(self._budget)
            try:
                while part := stream.read(CHUNK_BYTES):
                    if len(content) <= MAX_MEMBER_BYTES:
                        content += part
            except BudgetError:
                raise
            except UnreadableError as error:
                self._tell(name, str(error))
            large = len(content) > MAX_MEMBER_BYTES
            if not large:
                yield name, bytes(content)
        if large and not _is_archive(member.content):
            yield name, None
        yield from self.look(member.content, name, depth + 1)

    def _tell(self, where: str, reason: str) -> None:
        self._unread(f"{where}: {reason}" if where else reason)


def _is_archive(content: Content) -> bool:
    try:
        return identify(content) is not None
    except UnreadableError:
        return True  # one that is not opened here, which is told
