"""sha256 of many small files, one line for each: what costs system calls rather than hashing.

`small_files` starts this file as a program of its own, once a core, when there are many files. As a program it reads
requests from stdin and answers each with its lines, and needs nothing but the standard library.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence

BLOCK_BYTES = 1 << 20
READ_PLAIN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""For what was listed as a plain file, or resolved to one: what was put in its place since is not followed into."""
LARGER = "+"
FAILED = "!"


def lines(locations: Iterable[bytes]) -> Iterator[str]:
    """For each file `<sha256> <size>`, or `+` when it is larger than a block, or `!<reason>`; never a line break."""
    buffer, behind = bytearray(BLOCK_BYTES), (bytearray(1),)
    view, buffers = memoryview(buffer), (buffer,)
    for location in locations:
        try:
            descriptor = os.open(location, READ_PLAIN)
            try:
                count = os.readv(descriptor, buffers)
                larger = count == BLOCK_BYTES or os.readv(descriptor, behind)
            finally:
                os.close(descriptor)
        except OSError as error:
            yield FAILED + (error.strerror or str(error)).replace("\n", " ")
        else:
            yield LARGER if larger else f"{hashlib.sha256(view[:count]).hexdigest()} {count}"


def request(locations: Sequence[str]) -> bytes:
    """A batch as the program reads it: how many bytes follow, then the locations with NUL between them."""
    content = os.fsencode("\0".join(locations))
    return b"%d\n%b" % (len(content), content)


def main() -> None:
    """Answer requests until there are no more."""
    gc.disable()  # a hundred thousand texts hold no cycles to look for
    while size := sys.stdin.buffer.readline():
        locations = sys.stdin.buffer.read(int(size)).split(b"\0")
        answer = "".join([line + "\n" for line in lines(locations)])
        sys.stdout.buffer.write(answer.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
