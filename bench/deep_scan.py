"""The deep scan of one large torch file beside picklescan, clamd's part of it apart, and what it takes in memory and
on the disk.

picklescan reads the directory of the zip and the pickle in it, and none of the tensors. Beside it stands what modelctl
does for the same answer, and then the same with every member read to its end and its checksum verified, as it does
when clamd is given the bytes. With clamd every byte is also hashed and sent.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import sys
import threading
import zipfile
from pathlib import Path

import scanners
from comparison import Call, Row, beside, medians, peak_memory, quietly
from files import write_random
from modelctl.checks.limits import MalwareLimits
from modelctl.scan.clamd import Clamd
from modelctl.scan.files import Examiner
from modelctl.scan.inside import Depth, Examined
from modelctl.scan.windows import Windows
from modelctl.services.clamd import private_clamd
from modelctl.services.process import running

MIB = 1 << 20
STORAGES = 16
PATIENCE_S = 3600.0
"""The private clamd has no limit of time, so that a verdict on a busy machine is as good as a quick one."""
_LOOK = """
import sys, tempfile
from pathlib import Path
from modelctl.scan.inside import Depth, Examined, look_inside

def drain(stream, where):
    while stream.read(1 << 20):
        pass

path = Path(sys.argv[1])
examined = Examined(path=path.name)
depth = Depth(max_depth=5, max_members=100_000, max_unpacked_bytes=256 << 30, max_ratio=20)
with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
    look_inside(path, examined, depth=depth, scratch=Path(scratch), read=%s)
assert examined.pickles and all(item.rule == "pickle" for item in examined.problems), examined
"""
_GLANCE, _READ = _LOOK % "None", _LOOK % "drain"


def rows(folder: Path, *, rounds: int, size_mb: int) -> list[Row]:
    """Both scanners as whole processes on the same file, then one run with clamd."""
    path = write_torch(folder / "torch" / "pytorch_model.bin", size_mb)
    parameters: dict[str, str | int | float] = {"rounds": rounds, "size_mib": size_mb, "storages": STORAGES}
    home = folder / "home"
    home.mkdir(exist_ok=True)
    tools: dict[str, Call] = {
        "modelctl": quietly(sys.executable, "-I", "-c", _GLANCE, path),
        "picklescan": quietly(
            scanners.HOME / "bin" / "picklescan", "-p", path, env=scanners.environment(home), cwd=home
        ),
    }  # fmt: skip
    found = beside("deep scan, no clamd", medians(tools, rounds=rounds), "modelctl", at_most={}, **parameters)
    tools["modelctl"] = quietly(sys.executable, "-I", "-c", _READ, path)
    times = medians(tools, rounds=rounds)
    found += beside("deep scan, every byte checked, no clamd", times, "modelctl", at_most={}, **parameters)
    found.append(
        peak_memory(
            "peak memory, deep scan", _READ, path, libraries="import modelctl.scan.inside", parameters=parameters
        )
    )
    examined, temporary = _with_clamd(path)
    rate = round(size_mb / examined.seconds)
    found += [
        Row(
            figure="deep scan with clamd, all but clamd", ours=examined.seconds - examined.clamd_seconds,
            beside="clamd's part", other=examined.clamd_seconds, parameters=parameters | {"mib_per_s": rate},
        ),
        Row(
            figure="temporary space, deep scan", ours=temporary / MIB, beside="the file's size", other=size_mb,
            unit="MiB", at_most=0.1, parameters=parameters,
        ),
    ]  # fmt: skip
    shutil.rmtree(path.parent)
    return found


def _with_clamd(path: Path) -> tuple[Examined, int]:
    """One examination with a private clamd, and the most bytes of temporary files that were open during it."""
    limits = MalwareLimits()
    depth = Depth(
        max_depth=limits.max_depth, max_members=limits.max_members,
        max_unpacked_bytes=limits.max_unpacked_gib << 30, max_ratio=limits.max_ratio,
    )  # fmt: skip
    windows = Windows(size_bytes=limits.window_mib << 20, trusted_scan_s=PATIENCE_S)
    scratch, over = path.parent / "scratch", threading.Event()
    scratch.mkdir()
    seen = [0]

    def watch() -> None:
        while not over.wait(0.02):
            seen.append(_open_bytes(scratch))

    watcher = threading.Thread(target=watch)
    with running(private_clamd(path.parent / "clamd")) as clamd:
        watcher.start()
        examiner = Examiner(Clamd(clamd.address), windows=windows, depth=depth, scratch=scratch)
        examined = examiner.examine(path, path.name, advance=lambda _: None)
        over.set()
        watcher.join()
    if examined.undecided:
        raise SystemExit(f"bench: the deep scan could not decide: {examined.undecided[0]}")
    return examined, max(seen)


def _open_bytes(scratch: Path) -> int:
    """The sizes of this process's open files below a folder, those without a name too."""
    total = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.readlink(entry).startswith(str(scratch)):  # noqa: PTH115 - a deleted file's name is no path
                total += entry.stat().st_size
    return total


def write_torch(path: Path, size_mb: int) -> Path:
    """The zip that torch.save would write of a state dict of 16 float tensors of random bytes."""
    each = size_mb * MIB // STORAGES
    part = write_random(path.parent / "part", max(1, size_mb // STORAGES))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr("model/data.pkl", _state(each // 4))
        archive.writestr("model/byteorder", "little")
        for number in range(STORAGES):
            with part.open("rb") as source, archive.open(f"model/data/{number}", "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target, MIB)
        archive.writestr("model/version", "3\n")
    part.unlink()
    return path


def _state(elements: int) -> bytes:
    """The pickle of `{"layer.0.weight": tensor, …}`."""
    body = b"}("
    for number in range(STORAGES):
        size = b"J" + struct.pack("<i", elements)
        body += _text(f"layer.{number}.weight") + b"ctorch._utils\n_rebuild_tensor_v2\n((" + _text("storage")
        body += b"ctorch\nFloatStorage\n" + _text(str(number)) + _text("cpu") + size + b"tQK\0(" + size + b"t(K\1t\x89"
        body += b"ccollections\nOrderedDict\n)RtR"
    return b"\x80\2" + body + b"u."


def _text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()
