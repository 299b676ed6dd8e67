"""Reads pickle files without ever loading them: which names a loader would import, and whether each is harmless.

Only names on the exact list in `harmless` pass; there is no list of bad ones.
"""

from __future__ import annotations

from typing import BinaryIO

from modelctl.scan.opcodes import MAX_TEXT_BYTES, Pickle, walk

MAX_PICKLES = 10_000
"""Pickles in one file, one behind the other."""
TORCH_MAGIC = 0x1950A86A20F9469CFC6C
"""The number in the first pickle of a torch file of before 1.6."""
TORCH_PICKLES = 5


def walk_file(stream: BinaryIO) -> list[Pickle]:
    """The pickles a file begins with, one behind the other, or that follow the header of a NumPy array of objects.

    Nothing is returned for a file that is no pickle. Old torch files hold five pickles and then raw numbers, which
    are not walked.
    """
    if not _to_first_pickle(stream):
        return []
    pickles: list[Pickle] = []
    while True:
        found = walk(stream)
        if found.certain or found.end is not None:
            pickles.append(found)
        old_torch = len(pickles) == TORCH_PICKLES and pickles[0].first_number == TORCH_MAGIC
        if found.end is None or old_torch:
            break
        if len(pickles) >= MAX_PICKLES:
            found.problem = f"more than {MAX_PICKLES} pickles in one file"
            break
    return pickles if any(item.certain for item in pickles) else []


def _to_first_pickle(stream: BinaryIO) -> bool:
    """Go to where a pickle would begin: behind the header of a NumPy array of objects, else to the start."""
    head = stream.read(12)
    if not head.startswith(b"\x93NUMPY"):
        stream.seek(0)
        return True
    width = 2 if head[6:7] == b"\1" else 4
    length = int.from_bytes(head[8 : 8 + width], "little")
    stream.seek(8 + width)
    return b"O" in stream.read(min(length, MAX_TEXT_BYTES))
