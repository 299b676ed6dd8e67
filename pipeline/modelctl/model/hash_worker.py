"""sha256 of many small files, one line for each: what costs system calls rather than hashing.

Python does not run system calls of two threads side by side for long, so `hashing` starts this file as a program of
its own, once a core, when there are many files. As a program it reads locations that end in NUL from stdin, and needs
nothing but the standard library.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice

BLOCK_BYTES = 1 << 20
READ_PLAIN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""For what was listed as a plain file, or resolved to one: what was put in its place since is not followed into."""
LARGER = "+"
FAILED = "!"
LINES_AT_ONCE = 512


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


def main() -> None:
    """Read all locations, then write the lines, some hundred at a time."""
    gc.disable()  # a hundred thousand texts hold no cycles to look for
    locations = sys.stdin.buffer.read().split(b"\0")[:-1]
    found = lines(locations)
    while some := list(islice(found, LINES_AT_ONCE)):
        sys.stdout.buffer.write(("\n".join(some) + "\n").encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
