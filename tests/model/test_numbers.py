"""The pass over weights as numbers: counts that agree with numpy's own, in every type, across blocks and threads."""

from __future__ import annotations

import resource
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelctl.model import numbers
from modelctl.model.number_bits import is_float
from modelctl.model.number_rules import check_numbers
from modelctl.model.numbers import TensorNumbers, read_numbers
from modelctl.model.safetensors import DTYPE_BITS, TensorInfo, read_header
from tests.support.models import Tensor, bfloat16, write_safetensors


def read(path: Path, tensors: dict[str, Tensor], *, threads: int | None = None) -> dict[str, TensorNumbers]:
    write_safetensors(path, tensors)
    found = list(read_numbers(path, read_header(path), threads=threads))
    assert [item.tensor.begin for item in found] == sorted(item.tensor.begin for item in found)
    return {item.tensor.name: item for item in found}


def one(path: Path, dtype: str, data: bytes) -> TensorNumbers:
    return read(path, {"t": (dtype, (len(data) * 8 // DTYPE_BITS[dtype],), data)})["t"]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and jobs so small that every tensor is in many of them."""
    monkeypatch.setattr(numbers, "BLOCK_BYTES", 64)
    monkeypatch.setattr(numbers, "JOB_BYTES", 256)


@pytest.mark.parametrize(
    ("dtype", "bits", "nans", "infinities"),
    [
        ("F64", np.array([0, 0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48, 0xFFF0 << 48 | 1, 1], "<u8"), 2, 2),
        ("F32", np.array([0, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF, 0x7F7FFFFF], "<u4"), 2, 2),
        ("F16", np.array([0, 0x7C00, 0xFC00, 0x7C01, 0xFFFF, 0x7BFF, 0xFBFF], "<u2"), 2, 2),
        ("BF16", np.array([0, 0x7F80, 0xFF80, 0x7F81, 0xFFFF, 0x7F7F, 0xFF7F], "<u2"), 2, 2),
        ("F8_E5M2", np.array([0, 0x7C, 0xFC, 0x7D, 0x7E, 0xFF, 0x7B, 0xFB], "u1"), 3, 2),
        ("F8_E4M3", np.array([0, 0x7F, 0xFF, 0x7E, 0xFE, 0x78], "u1"), 2, 0),
        ("F8_E4M3FNUZ", np.array([0, 0x80, 0x7F, 0xFF], "u1"), 1, 0),
        ("F8_E5M2FNUZ", np.array([0, 0x80, 0x7C, 0xFF], "u1"), 1, 0),
        ("F8_E8M0", np.array([0, 0xFF, 0x7F, 0xFE], "u1"), 1, 0),
        ("C64", np.array([0, 0x7F800000, 0x7FC00000, 1], "<u4"), 1, 1),
        ("I16", np.array([0x7FFF, 0xFFFF, 0x7C01], "<u2"), 0, 0),
        ("BOOL", np.array([0, 1, 1], "u1"), 0, 0),
    ],
)
def test_special_values_of_every_type(
    tmp_path: Path, dtype: str, bits: npt.NDArray[np.unsignedinteger], nans: int, infinities: int
) -> None:
    found = one(tmp_path / "m.safetensors", dtype, bits.tobytes())
    assert (found.nans, found.infinities, found.zero, found.constant) == (nans, infinities, False, False)
    assert found.elements == len(bits)


@pytest.mark.parametrize("dtype", sorted(DTYPE_BITS))
def test_zeros_and_constants_in_every_type(tmp_path: Path, dtype: str) -> None:
    zero = one(tmp_path / "m.safetensors", dtype, b"\0" * 48)
    assert (zero.zero, zero.constant, zero.nans) == (True, True, 0)
    same = one(tmp_path / "m.safetensors", dtype, b"\x11" * 48)
    assert (same.zero, same.constant, same.nans) == (False, True, 0)
    other = one(tmp_path / "m.safetensors", dtype, b"\x11" * 24 + b"\x22" + b"\x11" * 23)
    assert (other.zero, other.constant) == (False, False)


def test_zeros_of_both_signs_are_zero_and_not_constant(tmp_path: Path) -> None:
    found = one(tmp_path / "m.safetensors", "BF16", b"\0\0\0\x80\0\0")
    assert (found.zero, found.constant) == (True, False)


@given(
    data=st.lists(
        st.sampled_from([0, 1, 0x3C00, 0x7BFF, 0x7C00, 0x7C01, 0xFC00, 0xFE00, 0x8000]), min_size=1, max_size=300
    ),
    threads=st.integers(1, 3),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_counts_agree_with_numpys_floats(tmp_path: Path, small_blocks: None, data: list[int], threads: int) -> None:
    bits = np.array(data, "<u2")
    floats = bits.view("<f2")
    found = read(tmp_path / "m.safetensors", {"t": ("F16", (len(data),), bits.tobytes())}, threads=threads)["t"]
    assert found.nans == np.isnan(floats).sum()
    assert found.infinities == np.isinf(floats).sum()
    assert found.zero == bool((floats == 0).all())
    assert found.constant == (len(set(data)) == 1)


def test_tensors_across_blocks_and_jobs_come_in_order(tmp_path: Path, small_blocks: None) -> None:
    random = np.random.default_rng(1)
    tensors: dict[str, Tensor] = {
        f"t{number}": ("U8", (size,), random.integers(1, 255, size, np.uint8).tobytes())
        for number, size in enumerate([1, 3, 700, 0, 255, 256, 257, 1, 1, 64])
    }
    found = read(tmp_path / "m.safetensors", tensors, threads=3)
    assert [(name, item.elements) for name, item in found.items()] == [
        (name, shape[0]) for name, (_, shape, _) in tensors.items() if shape[0]
    ]


def test_progress_is_told_every_byte(tmp_path: Path) -> None:
    told, lock = [0.0], Lock()

    def advance(amount: float) -> None:
        with lock:
            told[0] += amount

    path = tmp_path / "m.safetensors"
    write_safetensors(path, {"t": ("U8", (5 << 20,), b"\x01" * (5 << 20)), "u": ("U8", (7,), b"\x01" * 7)})
    assert len(list(read_numbers(path, read_header(path), advance=advance))) == 2
    assert told[0] == (5 << 20) + 7


def test_a_file_cut_short_meanwhile_is_an_error_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_safetensors(path, {"t": ("U8", (3 << 20,), b"\x01" * (3 << 20))})
    header = read_header(path)
    with path.open("rb+") as stream:
        stream.truncate(1 << 20)
    with pytest.raises(OSError, match="shorter"):
        list(read_numbers(path, header))


def test_memory_does_not_follow_the_size_of_a_tensor(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    size = 300 << 20
    header = b'{"t":{"dtype":"BF16","shape":[%d],"data_offsets":[0,%d]}}' % (size // 2, size)
    with path.open("wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        stream.truncate(8 + len(header) + size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert [item.zero for item in read_numbers(path, read_header(path))] == [True]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10


# What the numbers must not be.


def judged(name: str, shape: tuple[int, ...], dtype: str = "BF16", *, norms: bool = False, **facts: int) -> list[str]:
    tensor = TensorInfo(name=name, dtype=dtype, shape=shape, begin=0, end=0)
    found = TensorNumbers(
        tensor=tensor,
        elements=tensor.elements,
        nans=facts.get("nans", 0),
        infinities=facts.get("infinities", 0),
        zero=bool(facts.get("zero")),
        constant=bool(facts.get("constant")),
    )
    return [problem.kind for problem in check_numbers("m", [found], norms_multiply=norms)]


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "rules"),
    [
        ("model.layers.0.mlp.up_proj.weight", (4, 4), "BF16", ["all-zero"]),
        ("model.layers.0.mlp.up_proj.qweight", (4, 4), "I32", ["all-zero"]),
        ("model.layers.0.mlp.up_proj.scales", (4, 4), "F16", ["all-zero"]),
        ("model.layers.0.mlp.up_proj.qzeros", (4, 4), "I32", []),
        ("model.layers.0.mlp.up_proj.g_idx", (4,), "I32", []),
        ("model.layers.0.mlp.up_proj.bias", (4,), "BF16", []),
        ("model.layers.0.mlp.shared_expert_gate.weight", (1, 4), "BF16", []),
        ("model.norm.weight", (4,), "BF16", []),
        ("embeddings.token_type_embeddings.weight", (2, 4), "F32", []),
        ("h.0.attn.bias", (1, 1, 8, 8), "F32", []),
        ("x.lora_B.weight", (4, 4), "BF16", ["all-zero"]),
        ("x.lora_A.weight", (4, 4), "BF16", ["all-zero"]),
    ],
)
def test_where_zeros_are_wrong(name: str, shape: tuple[int, ...], dtype: str, rules: list[str]) -> None:
    assert judged(name, shape, dtype, zero=True, constant=True) == rules


def test_one_pair_of_an_adapter_may_be_as_it_began() -> None:
    found = [
        TensorNumbers(
            tensor=TensorInfo(name=f"x{zero}.lora_B.weight", dtype="BF16", shape=(4, 4), begin=0, end=0),
            elements=16,
            nans=0,
            infinities=0,
            zero=zero,
            constant=False,
        )
        for zero in (True, False)
    ]
    assert list(check_numbers("m", found)) == []


def test_norms_of_zeros_are_wrong_where_they_multiply() -> None:
    assert judged("model.norm.weight", (4,), norms=True, zero=True) == ["all-zero"]
    assert judged("model.norm.weight", (4,), norms=True, constant=True) == []


def test_infinite_masks_and_constant_ones_are_right() -> None:
    assert judged("visual.attn_mask", (4, 4), infinities=6) == []
    assert judged("x.weight", (4, 4), infinities=6) == ["inf"]
    assert judged("x.bias", (4,), nans=1) == ["nan"]
    assert judged("x.weight", (4, 4), constant=True) == ["constant"]
    assert judged("x.qzeros", (4, 4), "I32", constant=True) == []


def test_which_types_have_nan() -> None:
    assert [is_float(dtype) for dtype in ("BF16", "F8_E4M3", "I32", "F4")] == [True, True, False, False]


def test_real_weights_are_sound(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(0, 3, (64, 64))
    found = read(tmp_path / "m.safetensors", {"x.weight": ("BF16", (64, 64), bfloat16(values))})
    assert list(check_numbers("m", found.values())) == []
