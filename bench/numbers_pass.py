"""The pass over the weights as numbers beside a numpy sum over the same memory-mapped file, and its peak memory.

The sum adds the file's bytes as 64-bit whole numbers: of numpy's sums the one that memory holds back most, since it
has the fewest elements to add and no rounding.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from pathlib import Path

import numpy as np

from comparison import Call, Row, beside, medians, one_core, peak_memory
from modelctl.model.numbers import read_numbers
from modelctl.model.safetensors import read_header

MIB = 1 << 20
TENSOR_BYTES = 4 * MIB
HALF_THE_RATE = 2.0
"""At least half of the sum's rate, as a ratio of times."""
_READ = """
import sys
from pathlib import Path
import numpy
from modelctl.model.numbers import read_numbers
from modelctl.model.safetensors import read_header
path = Path(sys.argv[1])
count = sum(1 for _ in read_numbers(path, read_header(path)))
"""


def rows(folder: Path, *, rounds: int, size_mb: int) -> list[Row]:
    """Both on one core, then ours on all of them beside the same sum; memory above numpy's own."""
    path = write_weights(folder / "numbers" / "model.safetensors", size_mb)
    header = read_header(path)
    tools: dict[str, Call] = {
        "modelctl": lambda: sum(found.nans for found in read_numbers(path, header, threads=1)),
        "numpy sum": lambda: np.memmap(path, np.uint64, "r", offset=header.data_start).sum(),
    }
    about: dict[str, str | int | float] = {
        "rounds": rounds,
        "size_mib": size_mb,
        "dtype": "BF16",
        "numpy": np.__version__,
    }
    limits = {"numpy sum": HALF_THE_RATE}
    with one_core():
        times = medians(tools, rounds=rounds)
    found = beside("weights as numbers, one core", times, "modelctl", at_most=limits, cores=1, **about)
    tools["modelctl"] = lambda: sum(found.nans for found in read_numbers(path, header))
    times = medians(tools, rounds=rounds)
    cores = len(os.sched_getaffinity(0))
    found += beside(f"weights as numbers, {cores} cores", times, "modelctl", at_most=limits, cores=cores, **about)
    found.append(
        peak_memory("peak memory, weights as numbers", _READ, path, libraries="import numpy", parameters=about)
    )
    shutil.rmtree(path.parent)
    return found


def write_weights(path: Path, size_mb: int) -> Path:
    """A safetensors file of finite random BF16 matrices of 4 MiB; its data begins at a multiple of 8."""
    path.parent.mkdir(parents=True)
    count = max(1, size_mb * MIB // TENSOR_BYTES)
    entries = {
        f"layers.{number}.weight": {
            "dtype": "BF16",
            "shape": [1024, TENSOR_BYTES // 2 // 1024],
            "data_offsets": [number * TENSOR_BYTES, (number + 1) * TENSOR_BYTES],
        }
        for number in range(count)
    }
    head = json.dumps(entries).encode()
    head += b" " * (-len(head) % 8)
    block = np.random.default_rng(0).integers(0, 1 << 16, TENSOR_BYTES // 2, np.uint16) & 0xBFFF  # exponents below 128
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(head)) + head)
        for number in range(count):
            stream.write(np.roll(block, number).tobytes())
    return path
