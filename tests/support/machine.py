"""What this machine can compute in the time that a test may take."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

WIDE = ("avx512f", "amx_bf16", "bf16", "svebf16")
"""Processor flags with which PyTorch multiplies bfloat16 matrices at a fair rate."""


def multiplies_bfloat16() -> bool:
    """Whether the processor does; with AVX2 alone PyTorch takes five times as long as for float32."""
    try:
        flags = set(re.findall(r"\w+", Path("/proc/cpuinfo").read_text(encoding="utf-8")))
    except OSError:
        return False
    return not flags.isdisjoint(WIDE)


needs_bfloat16 = pytest.mark.skipif(
    not multiplies_bfloat16(),
    reason="this processor has no wide bfloat16 arithmetic (AVX-512 or AMX): the real model would take an hour",
)
