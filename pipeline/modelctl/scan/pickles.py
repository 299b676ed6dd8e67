"""Reads pickle files without ever loading them: which names a loader would import, and whether each is harmless.

Only names on the exact list in `harmless` pass; there is no list of bad ones. Besides plain pickles, one behind the
other, the formats are known that put something between them: NumPy's arrays of objects, joblib, and PyTorch before
1.6 with its tar of before 0.1.10.
"""

from __future__ import annotations

import io
import re
import struct
from typing import BinaryIO

from modelctl.scan.joblib_arrays import JoblibArrays
from modelctl.scan.numpy_arrays import MAGIC as ARRAY_MAGIC
from modelctl.scan.numpy_arrays import read_header
from modelctl.scan.opcodes import may_begin, walk
from modelctl.scan.values import Name
from modelctl.scan.walked import Pickle

MAX_PICKLES = 10_000
"""Pickles in one file, one behind the other."""
TORCH_MAGIC = 0x1950A86A20F9469CFC6C
"""The number in the first pickle of a torch file of before 1.6."""
TORCH_PICKLES = 5
_TORCH_TYPE = re.compile(r"(Double|Float|Half|Long|Int|Short|Char|Byte)(Storage|Tensor)")
_ELEMENT_BYTES = {"Double": 8, "Float": 4, "Half": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1}
_IMPORTABLE = re.compile(r"[^\W\d][\w\-]*(\.[^\W\d][\w\-]*)*")


def may_be_pickle(head: bytes) -> bool:
    """Whether a file that begins with these bytes, some KiB of it or all, can be one that `walk_file` finds pickles
    in."""
    if head.startswith(ARRAY_MAGIC):
        return True
    if not may_begin(head[:1]):
        return False
    found = walk(io.BytesIO(head))
    return found.certain or found.end is not None or found.cut_off


def walk_file(stream: BinaryIO) -> list[Pickle]:
    """The pickles a file begins with, one behind the other, or that follow the header of a NumPy array of objects.

    Nothing is returned for a file that is no pickle. Old torch files hold five pickles and then raw numbers, which
    are not walked. Raises `ValueError` for a NumPy array whose header can't be told.
    """
    stream.seek(0)
    behind_header = _to_first_pickle(stream)
    if behind_header is None:
        return []
    pickles: list[Pickle] = []
    while True:
        found = _walk_one(stream, pickles)
        if found.certain or found.end is not None or (behind_header and not pickles):
            pickles.append(found)
        old_torch = len(pickles) == TORCH_PICKLES and pickles[0].value == TORCH_MAGIC
        if found.end is None or old_torch:
            break
        if len(pickles) >= MAX_PICKLES:
            found.problem = f"more than {MAX_PICKLES} pickles in one file"
            break
        if isinstance(pickles[0].value, int):
            _skip_old_tensor(stream, found)
    return pickles if behind_header or any(item.certain for item in pickles) else []


def _to_first_pickle(stream: BinaryIO) -> bool | None:
    """Go to where a pickle would begin. True: behind the header of a NumPy array of objects; None: there is none."""
    arrays = 0
    while (header := read_header(stream)) is not None:
        if header.objects:
            return True
        arrays += 1  # arrays may follow each other in one file
        stream.seek(header.end)
    return False if not arrays else None


def _walk_one(stream: BinaryIO, pickles: list[Pickle]) -> Pickle:
    """Walk a pickle as joblib reads it; where that is another way than Python's, what Python would import counts
    too."""
    start = stream.tell()

    def nested() -> None:
        inner = walk(stream)
        pickles.append(inner)
        if inner.end is None:
            raise ValueError("an array of objects whose pickle can't be read")

    arrays = JoblibArrays(stream.tell, nested)
    found = walk(stream, built=arrays)
    if arrays.skipped is not None:
        here = stream.tell()
        stream.seek(start)
        until = here if arrays.mixed is None else arrays.mixed
        found.imports += [
            item
            for item in walk(stream).imports
            if arrays.skipped <= item.offset < until
            and _IMPORTABLE.fullmatch(item.module)
            and _IMPORTABLE.fullmatch(item.name)
        ]
        stream.seek(here)
    return found


def _skip_old_tensor(stream: BinaryIO, pickle: Pickle) -> None:
    """Go over the raw numbers behind a pickle of the members `storages` and `tensors` of a torch tar.

    Behind (key, location, storage type) come the number of elements in 8 bytes and the elements; behind (key, storage,
    tensor type) the dimensions in 8 bytes, then sizes, strides and an offset of 8 bytes each. Source: `legacy_load` in
    torch/serialization.py.
    """
    value = pickle.value
    if not isinstance(value, tuple) or len(value) != 3 or not isinstance(value[2], Name):
        return
    match = _TORCH_TYPE.fullmatch(value[2].name)
    if match is None or not value[2].module.startswith("torch"):
        return
    head = stream.read(8)
    if len(head) < 8:
        return
    if match[2] == "Storage":
        length = struct.unpack("<q", head)[0] * _ELEMENT_BYTES[match[1]]
    else:
        length = struct.unpack("<l", head[:4])[0] * 16 + 8
    start = stream.tell()
    if 0 <= length <= stream.seek(0, io.SEEK_END) - start:
        stream.seek(start + length)
    else:
        pickle.problem = f"broken pickle at byte {start}: a tensor of {length} bytes"
