"""How a GGUF file describes its tensors: name, shape, type and place, one after the other behind the metadata.

Rules of ggml's description of the format and of llama.cpp's reader, whichever is stricter: names of at most 63 bytes
and once each, at most four dimensions, types that ggml knows and rows of whole blocks of them. What keeps one from
reading on raises; what does not is noted as a problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelctl.model.gguf_metadata import BrokenGgufError, Problems, Source

MAX_NAME_BYTES = 63
"""64 in the description; the reference keeps one for the terminator (GGML_MAX_NAME)."""
MAX_DIMENSIONS = 4
_MAX_I64, _MAX_U64 = (1 << 63) - 1, (1 << 64) - 1

GGML_TYPES: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18), 42: ("Q2_0", 64, 18),
}  # fmt: skip
"""Number in the file → name, elements of a block, bytes of a block; those between are formats that ggml removed.

Q8_1 has 36 bytes in ggml's own reader and 40 in its Python package; the reader decides."""


@dataclass(frozen=True, kw_only=True)
class GgufTensor:
    """One tensor: `begin` and `end` count bytes from where tensor data begins."""

    name: str
    type: str
    shape: tuple[int, ...]
    """As in the file: the length of a row first."""
    begin: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Stored bytes, without padding."""
        return self.end - self.begin

    @property
    def elements(self) -> int:
        """Weights, whatever they are packed into."""
        return _product(self.shape)


def read_tensor(source: Source, number: int, names: set[str], problems: Problems) -> GgufTensor | None:
    """The description of tensor `number`, or None when it was read and its size can't be known.

    `names` are those of the tensors before it; its own is added. Raises `BrokenGgufError`.
    """
    length = source.number("Q", f"the name of tensor {number}")
    if length > MAX_NAME_BYTES:
        raise BrokenGgufError(f"tensor: the name of tensor {number} has {length} bytes, the most is {MAX_NAME_BYTES}")
    raw = source.take(length, f"the name of tensor {number}")
    name = raw.decode("utf-8", "backslashreplace")
    where = f"tensor {name!a}"
    if name.encode() != raw:
        problems.add("tensor", f"{where} has a name that is not UTF-8")
    if not name.isprintable():
        problems.add("tensor", f"{where} has unprintable characters in its name")
    if name in names:
        problems.add("duplicate-tensor", f"{where} is described twice")
    names.add(name)
    dimensions = source.number("I", where)
    if dimensions > MAX_DIMENSIONS:
        raise BrokenGgufError(f"shape: {where} has {dimensions} dimensions, the most is {MAX_DIMENSIONS}")
    shape = tuple(source.number("Q", where) for _ in range(dimensions))
    kind = source.number("I", where)
    begin = source.number("Q", where)
    if kind not in GGML_TYPES:
        problems.add("type", f"{where} has the unknown type {kind}")
        return None
    word, block, block_bytes = GGML_TYPES[kind]
    if max(shape, default=0) > _MAX_I64 or _product(shape) >= _MAX_I64:
        problems.add("shape", f"{where} of shape {list(shape)} has more elements than 63 bits count")
        return None
    if 0 in shape:
        problems.add("shape", f"{where} of shape {list(shape)} has no elements: readers have crashed on a side of 0")
        return None
    row = shape[0] if shape else 1
    if row % block:
        problems.add("shape", f"{where} has rows of {row}, wanted whole blocks of {block} for {word}")
        return None
    size = _product(shape) // block * block_bytes
    if begin + size > _MAX_U64:
        problems.add("size", f"{where} of {size} bytes at {begin} ends after what 64 bits count")
        return None
    return GgufTensor(name=name, type=word, shape=shape, begin=begin, end=begin + size)


def _product(shape: tuple[int, ...]) -> int:
    count = 1
    for dimension in shape:
        count *= dimension
    return count
