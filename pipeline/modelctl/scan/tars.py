"""The members of a tar archive, read where they lie, and what is odd about it."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable, Iterator

from modelctl.scan.content import Extent, UnreadableError
from modelctl.scan.zip_directory import Oddity

_MAX_HEADER_BYTES = 4 << 20
"""Longest name or extended header that is read into memory at once."""
_LEAVES = re.compile(r"^/|(^|/)\.\.(/|$)|\0")
_BLOCK_BYTES = 1 << 20


def read_tar(extent: Extent, count: Callable[[], None]) -> Iterator[tuple[str, Extent] | Oddity]:
    """Name and content of every plain file, and a reason to refuse for all else but folders.

    `count` is called for each member and may raise to stop. Raises `UnreadableError` for a broken archive.
    """
    names: set[str] = set()
    try:
        with _Bounded(extent.raw()) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            for info in archive:
                count()
                if _LEAVES.search(info.name):
                    detail = f"the name {info.name!a} leads out of the folder it is unpacked in"
                    yield Oddity(rule="archive-path", detail=detail)
                if info.isdir():
                    continue
                if info.name in names:
                    yield Oddity(rule="archive-ambiguous", detail=f"two members are named {info.name!a}")
                names.add(info.name)
                if not info.isreg():
                    yield Oddity(rule="archive", detail=f"member {info.name!a} is no plain file")
                elif info.issparse():
                    yield Oddity(rule="archive", detail=f"member {info.name!a} is sparse, which is not opened here")
                else:
                    yield info.name, extent.part(info.offset_data, info.size)
            end = archive.offset
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise UnreadableError(f"broken tar archive: {error}") from error
    if not _only_zeros(extent, end):
        detail = "bytes behind the end of the archive belong to no member"
        yield Oddity(rule="archive-ambiguous", detail=detail)


def _only_zeros(extent: Extent, start: int) -> bool:
    places = range(start, extent.size, _BLOCK_BYTES)
    return all(not extent.peek(place, _BLOCK_BYTES).strip(b"\0") for place in places)


class _Bounded(io.BufferedReader):
    """A file that refuses to read very much at once, as a hostile header makes tarfile do."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return super().read(size)
