"""The scales of GGUF's packed types: layouts against ggml's own library, and what is made of NaN, Inf and zeros."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from modelctl.model import numbers
from modelctl.model.gguf import read_header
from modelctl.model.gguf_blocks import BLOCK_SIZES, scales
from modelctl.model.gguf_tensors import GGML_TYPES
from modelctl.model.number_rules import check_numbers, weights_of
from modelctl.model.numbers import TensorNumbers, read_numbers
from tests.support.gguf import entry, gguf, tensor, text

TYPES = {name: (number, elements) for number, (name, elements, _) in GGML_TYPES.items()}
HALVES = {"Q4_0": 0, "Q4_1": 2, "Q4_K": 2, "Q6_K": 208, "IQ4_XS": 0, "TQ2_0": 64}
"""Where a block of the type has an F16 scale or offset."""


def written(folder: Path, kind: str, data: bytes, name: str = "blk.0.attn_q.weight") -> Path:
    """A file of one matrix of rows of one block."""
    number, elements = TYPES[kind]
    rows = len(data) // BLOCK_SIZES[kind]
    described = tensor(name, (elements, rows), number, 0)
    path = folder / "model.gguf"
    architecture = entry("general.architecture", 8, text("llama"))
    path.write_bytes(gguf([architecture], [described], data + bytes(-len(data) % 32)))
    return path


def read(path: Path) -> TensorNumbers:
    header = read_header(path)
    assert header.problems == ()
    [found] = read_numbers(path, weights_of(header))
    return found


def found_in(path: Path) -> list[tuple[str, str]]:
    header = weights_of(read_header(path))
    return [(item.kind, item.detail) for item in check_numbers(path.name, read_numbers(path, header))]


def test_every_packed_type_has_scales() -> None:
    for kind, size in BLOCK_SIZES.items():
        words = [word for _, held in scales(kind, np.zeros((3, size), np.uint8)) for word in held]
        assert len(words) in (3, 6, 12), kind


@pytest.mark.parametrize("kind", sorted(BLOCK_SIZES))
def test_a_matrix_of_zeros_was_never_filled(tmp_path: Path, kind: str) -> None:
    [(rule, detail)] = found_in(written(tmp_path, kind, bytes(BLOCK_SIZES[kind] * 4)))
    assert rule == "all-zero"
    assert "block scales are zero" in detail


@pytest.mark.parametrize("kind", sorted(BLOCK_SIZES))
def test_ones_everywhere_are_one_block_again_and_again(tmp_path: Path, kind: str) -> None:
    [(rule, detail)] = found_in(written(tmp_path, kind, b"\x11" * (BLOCK_SIZES[kind] * 4)))
    assert (rule, detail[-23:]) == ("constant", "all blocks are the same")
    assert found_in(written(tmp_path, kind, b"\x11" * (BLOCK_SIZES[kind] * 4), name="position_embd.weight")) == []


@pytest.mark.parametrize(("kind", "offset"), HALVES.items())
@pytest.mark.parametrize(("word", "rule"), [(0x7E00, "nan"), (0xFC01, "nan"), (0x7C00, "inf"), (0xFC00, "inf")])
def test_one_wrong_scale_of_many_is_found_and_counted(
    tmp_path: Path, kind: str, offset: int, word: int, rule: str
) -> None:
    size = BLOCK_SIZES[kind]
    data = bytearray(np.random.default_rng(0).integers(0, 0x3C, size * 64, np.uint8).tobytes())
    struct.pack_into("<H", data, size * 41 + offset, word)
    [(found, detail)] = found_in(written(tmp_path, kind, bytes(data)))
    assert found == rule
    assert "1 of " in detail
    assert "block scales are" in detail


def test_bits_outside_the_scales_may_be_anything(tmp_path: Path) -> None:
    data = np.full((64, BLOCK_SIZES["Q8_0"]), 0xFF, np.uint8)
    data[:, :2] = np.random.default_rng(0).integers(0, 0x3C, (64, 2))
    assert found_in(written(tmp_path, "Q8_0", data.tobytes())) == []


def test_a_scale_of_zero_of_either_sign_is_zero_whatever_the_block_holds(tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(0, 256, (64, BLOCK_SIZES["Q4_0"]), np.uint8)
    data[:, 0], data[:, 1] = 0, np.arange(64) % 2 * 0x80
    assert [rule for rule, _ in found_in(written(tmp_path, "Q4_0", data.tobytes()))] == ["all-zero"]
    data[63, 0] = 1
    assert found_in(written(tmp_path, "Q4_0", data.tobytes())) == []


def test_blocks_are_never_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers that hold no whole number of blocks: each scale is still read once."""
    size = BLOCK_SIZES["Q6_K"]
    data = np.random.default_rng(0).integers(0, 0x3C, (100, size), np.uint8)
    data[7, 208:] = data[99, 208:] = (0, 0x7E)
    path = written(tmp_path, "Q6_K", data.tobytes())
    whole = read(path)
    monkeypatch.setattr(numbers, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(numbers, "JOB_BYTES", 3001)
    assert read(path) == whole
    assert (whole.elements, whole.nans, whole.infinities) == (100, 2, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(BLOCK_SIZES.keys() - {"Q8_1", "Q8_K", "Q1_0", "Q2_0", "MXFP4", "NVFP4"}))
def test_a_block_is_no_number_exactly_when_the_reference_library_makes_it_none(tmp_path: Path, kind: str) -> None:
    """Random bytes, so that every field is at times NaN, infinite and zero; the library unpacks each block."""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    rng = np.random.default_rng(0)
    blocks = rng.integers(0, 256, (3000, BLOCK_SIZES[kind]), np.uint8)
    with np.errstate(all="ignore"):
        values = dequantize(blocks, GGMLQuantizationType[kind])
    ours = np.zeros(len(blocks), bool)
    zero = np.ones(len(blocks), bool)
    for _, words in scales(kind, blocks):
        by_block = words.reshape(len(blocks), -1)
        ours |= (by_block & 0x7C00 == 0x7C00).any(axis=1)
        zero &= (by_block & 0x7FFF == 0).all(axis=1)
    assert ours.any()
    assert (ours == ~np.isfinite(values).all(axis=1)).all()
    assert not values[zero].any()
