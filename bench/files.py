"""Hashing and listing: one large file on one core, shards on all cores, a tree of small files, and peak memory."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

from comparison import Call, Row, beside, medians, one_core, peak_memory, quietly
from modelctl.model.hashing import hash_file, hash_files
from modelctl.model.tree import MAX_FILES, scan_tree

MIB = 1 << 20
SHARDS = 8
SMALL_BYTES = 400
SAME_RATE = 1 / 0.95
"""At least 0.95 of another's rate, as a ratio of times."""
NOT_LINEAR = 1.25
"""A tree ten times as large may take a quarter more for each file: caches of the processor are what they are."""
_SCAN = """
import sys
from pathlib import Path
from modelctl.model.tree import scan_tree
scan_tree(Path(sys.argv[1])).digest
"""


def one_file(folder: Path, *, rounds: int, size_mb: int) -> list[Row]:
    """sha256 of one file of random bytes, every tool on the same core; then the memory that it takes."""
    path = write_random(folder / "one" / "weights.bin", size_mb)
    tools: dict[str, Call] = {"modelctl": lambda: hash_file(path), "sha256sum": quietly("sha256sum", path)}
    if shutil.which("openssl"):
        tools["openssl dgst"] = quietly("openssl", "dgst", "-sha256", path)
    with one_core():
        times = medians(tools, rounds=rounds)
    found = beside(
        "sha256 of one file", times, "modelctl", at_most={"openssl dgst": SAME_RATE},
        rounds=rounds, size_mib=size_mb, cores=1, python=platform.python_version(),
    )  # fmt: skip
    found.append(peak_memory("peak memory, one file", _SCAN, path.parent, parameters={"size_mib": size_mb}))
    shutil.rmtree(path.parent)
    return found


def shards(folder: Path, *, rounds: int, size_mb: int) -> list[Row]:
    """Files of the same size hashed on all cores beside the same on one: 1 / cores would be perfect."""
    paths = [str(write_random(folder / "shards" / f"{number}.bin", size_mb // SHARDS)) for number in range(SHARDS)]
    cores = len(os.sched_getaffinity(0))

    def alone() -> None:
        with one_core():
            hash_files(paths)

    times = medians({"modelctl": lambda: hash_files(paths), "itself on one core": alone}, rounds=rounds)
    shutil.rmtree(folder / "shards")
    wanted = {"itself on one core": 1.25 / min(cores, SHARDS)} if cores > 1 else {}
    figure = f"{SHARDS} shards on {cores} cores"
    return beside(figure, times, "modelctl", at_most=wanted, rounds=rounds, size_mib=size_mb, cores=cores)


def small_files(folder: Path, *, rounds: int, count: int = MAX_FILES) -> list[Row]:
    """List, hash and digest many small files, beside git's hash of each and beside a tenth of them."""
    whole, tenth = write_small(folder / "small", count), write_small(folder / "tenth", count // 10)
    names = "\n".join(str(whole / entry.path) for entry in scan_tree(whole).files)

    def git() -> None:
        subprocess.run(["git", "hash-object", "--stdin-paths"], input=names, text=True, capture_output=True, check=True)

    tools: dict[str, Call] = {
        "modelctl": lambda: scan_tree(whole).digest,
        "git hash-object": git,
        "a tenth": lambda: scan_tree(tenth).digest,
    }
    times = medians(tools, rounds=rounds)
    figures: dict[str, str | int | float] = {
        "rounds": rounds,
        "files": count,
        "bytes_each": SMALL_BYTES,
        "git": _git_version(),
    }
    name = f"{count} small files"
    found = [
        *beside(
            f"{name}: list, hash, digest", {key: times[key] for key in ("modelctl", "git hash-object")}, "modelctl",
            at_most={"git hash-object": 1.0}, **figures,
        ),
        Row(
            figure=f"{name}: time, linear in files", ours=times["modelctl"], beside=f"ten times {count // 10} files",
            other=10 * times["a tenth"], at_most=NOT_LINEAR, parameters=figures,
        ),
        peak_memory(f"peak memory, {name}", _SCAN, whole, parameters=figures),
    ]  # fmt: skip
    shutil.rmtree(whole)
    shutil.rmtree(tenth)
    return found


def write_random(path: Path, size_mb: int) -> Path:
    """A file of random bytes without holes; the same 16 MiB over and over, which no digest can tell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    block = os.urandom(16 * MIB)
    left = size_mb * MIB
    with path.open("wb") as stream:
        while left:
            left -= stream.write(block[:left])
    return path


def write_small(folder: Path, count: int) -> Path:
    """`count` different files of some hundred bytes, a thousand in a folder."""
    for number in range(count):
        part = folder / f"{number // 1000:04}"
        if not number % 1000:
            part.mkdir(parents=True)
        (part / f"{number:06}.json").write_bytes(b'{"n": %06d}' % number + b" " * (SMALL_BYTES - 13) + b"\n")
    return folder


def _git_version() -> str:
    return subprocess.run(["git", "--version"], capture_output=True, check=True, text=True).stdout.split()[2]
