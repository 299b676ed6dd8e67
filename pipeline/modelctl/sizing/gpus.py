"""GPUs by name: how much memory they have, how fast it is, and how they can be divided.

Memory is what `nvidia-smi` reports in MiB; bandwidth, power and number formats are the makers' data sheets. A MIG
slice has eighths of the memory (quarters on an A30), as NVIDIA's MIG user guide lists its profiles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from modelctl.documents import nearest
from modelctl.errors import InputError

MIB = 1 << 20
_EIGHTHS = {"1g": 1, "2g": 2, "3g": 4, "4g": 4, "7g": 8}
_WIDE = {"1g": 2}
"""Profiles of one compute slice with twice the memory, such as 1g.20gb of an 80 GB card."""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU, or one slice of one."""

    name: str
    memory_bytes: int
    bandwidth_bytes_s: float | None = None
    power_w: int | None = None
    fp8: bool = False
    """Whether it computes with 8-bit floats (Ada, Hopper and later)."""
    mig: Mapping[str, int] = field(default_factory=dict)
    """Profiles it can be divided into → eighths of its memory."""


def _gpu(name: str, mib: int, gb_s: float, watts: int, *, fp8: bool = False, card_gb: int | None = None) -> Gpu:
    return Gpu(
        name=name, memory_bytes=mib * MIB, bandwidth_bytes_s=gb_s * 1e9, power_w=watts, fp8=fp8,
        mig=_profiles(card_gb) if card_gb else {},
    )  # fmt: skip


def _profiles(card_gb: int) -> dict[str, int]:
    """The profiles' names hold gigabytes, rounded as the guide rounds them."""
    found = {f"{part}.{_rounded(card_gb * eighths / 8)}gb": eighths for part, eighths in _EIGHTHS.items()}
    return found | {f"{part}.{_rounded(card_gb * eighths / 8)}gb": eighths for part, eighths in _WIDE.items()}


def _rounded(gigabytes: float) -> int:
    return int(gigabytes + 0.5)


GPUS: Mapping[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        _gpu("T4", 15360, 320, 70),
        _gpu("RTX-3090", 24576, 936, 350),
        _gpu("RTX-4090", 24564, 1008, 450, fp8=True),
        _gpu("L4", 23034, 300, 72, fp8=True),
        _gpu("A10", 23028, 600, 150),
        _gpu("RTX-A6000", 49140, 768, 300),
        _gpu("L40S", 46068, 864, 350, fp8=True),
        _gpu("A100-40GB", 40960, 1555, 400, card_gb=40),
        _gpu("A100-80GB", 81920, 2039, 400, card_gb=80),
        _gpu("H100-80GB", 81559, 3350, 700, fp8=True, card_gb=80),
        _gpu("H100-NVL", 95830, 3900, 400, fp8=True),
        _gpu("H200", 143771, 4800, 700, fp8=True, card_gb=141),
        _gpu("B200", 183359, 8000, 1000, fp8=True, card_gb=180),
    )
}
"""In rising order of memory within each generation."""


def find_gpu(text: str) -> Gpu:
    """A GPU by name (`H100-80GB`), a slice of one (`H100-80GB:3g.40gb`), or so much memory (`24GiB`, `24GB`).

    Raises `InputError` that names the nearest.
    """
    amount = re.fullmatch(r"(\d+(?:\.\d+)?) ?(GiB|GB)", text, re.IGNORECASE)
    if amount:
        unit = 1 << 30 if amount[2].lower() == "gib" else 10**9
        return Gpu(name=text, memory_bytes=int(float(amount[1]) * unit))
    name, _, profile = text.partition(":")
    by_key = {_key(known): gpu for known, gpu in GPUS.items()}
    gpu = by_key.get(_key(name))
    if gpu is None:
        close = nearest(name.upper(), list(GPUS))
        hint = f"did you mean {close}? " if close else ""
        raise InputError(
            f"no GPU '{name}' is known", remedy=f"{hint}known are {', '.join(GPUS)}; or give its memory: 24GiB"
        )
    return slice_of(gpu, profile) if profile else gpu


def slice_of(gpu: Gpu, profile: str) -> Gpu:
    """A MIG slice as a GPU of its own: as many eighths of bandwidth and power. Raises `InputError`."""
    eighths = gpu.mig.get(profile)
    if eighths is None:
        known = ", ".join(gpu.mig) or "none: it can't be divided"
        raise InputError(f"{gpu.name} has no MIG profile '{profile}'", remedy=f"its profiles are {known}")
    return replace(
        gpu,
        name=f"{gpu.name}:{profile}",
        memory_bytes=gpu.memory_bytes * eighths // 8,
        bandwidth_bytes_s=gpu.bandwidth_bytes_s and gpu.bandwidth_bytes_s * eighths / 8,
        power_w=gpu.power_w and gpu.power_w * eighths // 8,
        mig={},
    )


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().removeprefix("nvidia"))
