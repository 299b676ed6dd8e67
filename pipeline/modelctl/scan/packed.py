"""Small members of archives, for whoever looks for code: zip and tar files, plain or compressed, wheels and eggs among
them.

Nothing is written to disk. Members over the limit are passed by: they are weights, and the malware check looks into
them. What could not be looked into is told, never left out.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from lzma import LZMAError
from pathlib import Path
from typing import IO

MAX_MEMBER_BYTES = 4 << 20
MAX_MEMBERS = 20_000
MAX_TOTAL_BYTES = 512 << 20
"""Of all members that are read; a tar file is also read no further than this many times four, unpacked."""
_BROKEN = (
    OSError, EOFError, zlib.error, LZMAError, zipfile.BadZipFile, tarfile.TarError, ValueError, RuntimeError,
    NotImplementedError, IndexError,
)  # fmt: skip
"""What the standard library raises for broken archives; RuntimeError for an encrypted member."""


class UnopenedError(Exception):
    """An archive, or the rest of one, that was not looked into; the message says why."""


def small_members(location: Path) -> Iterator[tuple[str, bytes]]:
    """(name, content) of every member of up to 4 MiB; none for a file that is no archive.

    Raises `UnopenedError` after the members that could be read.
    """
    try:
        if zipfile.is_zipfile(location):
            yield from _of_zip(location)
        elif _may_be_tar(location):
            yield from _of_tar(location)
    except _BROKEN as error:
        raise UnopenedError(f"an archive that can't be read to its end: {str(error)[:120]}") from error


def _of_zip(location: Path) -> Iterator[tuple[str, bytes]]:
    budget = MAX_TOTAL_BYTES
    with zipfile.ZipFile(location) as archive:
        members = archive.infolist()
        for info in members[:MAX_MEMBERS]:
            if info.is_dir() or info.file_size > MAX_MEMBER_BYTES:
                continue
            with archive.open(info) as stream:
                content = stream.read(MAX_MEMBER_BYTES + 1)
            budget = _spend(budget, len(content))
            yield info.filename, content[:MAX_MEMBER_BYTES]
        if len(members) > MAX_MEMBERS:
            raise UnopenedError(f"{len(members)} members, of which {MAX_MEMBERS} were looked at")


def _of_tar(location: Path) -> Iterator[tuple[str, bytes]]:
    budget, passed = MAX_TOTAL_BYTES, 4 * MAX_TOTAL_BYTES
    with tarfile.open(location, "r|*") as archive:
        for number, info in enumerate(archive):
            if number == MAX_MEMBERS:
                raise UnopenedError(f"more than {MAX_MEMBERS} members")
            passed = _spend(passed, max(info.size, 0))
            stream: IO[bytes] | None = archive.extractfile(info) if info.isreg() else None
            if stream is not None and info.size <= MAX_MEMBER_BYTES:
                content = stream.read(MAX_MEMBER_BYTES)
                budget = _spend(budget, len(content))
                yield info.name, content


def _spend(budget: int, size: int) -> int:
    if size > budget:
        raise UnopenedError("it holds more than is read for code")
    return budget - size


def _may_be_tar(location: Path) -> bool:
    """By the first bytes: a tar header, or a compressor's magic with a tar inside."""
    try:
        with tarfile.open(location, "r|*") as archive:
            return archive.next() is not None
    except _BROKEN:
        return False
