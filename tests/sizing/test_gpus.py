from __future__ import annotations

import pytest

from modelctl.errors import InputError
from modelctl.sizing.gpus import GPUS, find_gpu


@pytest.mark.parametrize("text", ["H100-80GB", "h100 80gb", "NVIDIA H100-80GB"])
def test_a_gpu_by_name(text: str) -> None:
    assert find_gpu(text) is GPUS["H100-80GB"]


@pytest.mark.parametrize(("text", "size"), [("24GiB", 24 << 30), ("24GB", 24_000_000_000), ("0.5 gib", 1 << 29)])
def test_a_gpu_by_memory(text: str, size: int) -> None:
    assert find_gpu(text).memory_bytes == size


@pytest.mark.parametrize(
    ("name", "profiles"),
    [
        ("A100-40GB", {"1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}),
        ("H100-80GB", {"1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}),
        ("H200", {"1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"}),
        ("B200", {"1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"}),
        ("L4", set()),
    ],
)
def test_profiles_as_the_mig_guide_names_them(name: str, profiles: set[str]) -> None:
    assert set(GPUS[name].mig) == profiles


def test_a_slice_has_its_eighths() -> None:
    whole, part = GPUS["H100-80GB"], find_gpu("H100-80GB:3g.40gb")
    assert part.memory_bytes == whole.memory_bytes // 2
    assert part.power_w == 350
    assert part.mig == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [("H100", "H100-80GB"), ("L4S", "L4"), ("potato", "24GiB"), ("L4:1g.5gb", "none"), ("H200:9g.1gb", "1g.18gb")],
)
def test_an_unknown_one_is_an_error_that_names_what_there_is(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        find_gpu(text)
    assert words in (caught.value.remedy or "")
