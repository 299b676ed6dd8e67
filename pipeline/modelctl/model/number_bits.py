"""NaN, Inf, zero and constant, told by the bits of stored weights; floats are never converted.

In sign-and-magnitude bits, NaN and Inf are the largest magnitudes (IEEE 754, section 3.4; for 8 bits the OCP 8-bit
floating point specification, section 5). The OR of a block's bits is at least as large as each of them, so one pass
clears a block whose weights are all under 2; else two maxima, of the bits as signed and as unsigned integers, tell
whether it holds any, and only then they are counted. Of the packed types of GGUF the scales of the blocks are judged in
this way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelctl.model.gguf_blocks import BLOCK_SIZES, scales
from modelctl.model.safetensors import DTYPE_BITS, TensorInfo

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Block = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True, kw_only=True)
class _Bits:
    """How special values of a type are told by magnitude (the bits without the sign)."""

    width: int
    signed: bool = False
    infinity: int | None = None
    nan: int = 1 << 64
    """The smallest magnitude that is NaN; without a sign-and-magnitude form the one pattern that is, if any."""


_SPECIAL: Mapping[str, _Bits] = {
    "F64": _Bits(width=64, signed=True, infinity=0x7FF << 52, nan=(0x7FF << 52) + 1),
    "F32": _Bits(width=32, signed=True, infinity=0x7F800000, nan=0x7F800001),
    "C64": _Bits(width=32, signed=True, infinity=0x7F800000, nan=0x7F800001),
    "BF16": _Bits(width=16, signed=True, infinity=0x7F80, nan=0x7F81),
    "F16": _Bits(width=16, signed=True, infinity=0x7C00, nan=0x7C01),
    "F8_E5M2": _Bits(width=8, signed=True, infinity=0x7C, nan=0x7D),
    "F8_E4M3": _Bits(width=8, signed=True, nan=0x7F),
    "F8_E4M3FNUZ": _Bits(width=8, nan=0x80),
    "F8_E5M2FNUZ": _Bits(width=8, nan=0x80),
    "F8_E8M0": _Bits(width=8, nan=0xFF),
}


@dataclass(kw_only=True)
class NumberSum:
    """What is known of a tensor, or of a part of it; `first` is the bits of its first element or block."""

    tensor: TensorInfo
    first: int
    elements: int = 0
    nans: int = 0
    infinities: int = 0
    zero: bool = True
    constant: bool = True

    def add(self, other: NumberSum) -> None:
        """Take in the part that follows."""
        self.elements += other.elements
        self.nans += other.nans
        self.infinities += other.infinities
        self.zero = self.zero and other.zero
        self.constant = self.constant and other.constant and self.first == other.first


def is_float(dtype: str) -> bool:
    """Whether a type of safetensors or GGUF has NaN."""
    return dtype in _SPECIAL or dtype in BLOCK_SIZES


def summary(tensor: TensorInfo, content: npt.NDArray[np.uint8]) -> NumberSum:
    """Of a run of a tensor's bytes, at least one element or block, none cut; 4 and 6 bit types are judged as bytes."""
    if tensor.dtype in BLOCK_SIZES:
        return _blocks_summary(tensor, content.reshape(-1, BLOCK_SIZES[tensor.dtype]))
    bits = _SPECIAL.get(tensor.dtype) or _Bits(width=max(DTYPE_BITS[tensor.dtype] // 8 * 8, 8))
    return _plain_summary(tensor, content.view(f"u{bits.width // 8}"), bits)


def _blocks_summary(tensor: TensorInfo, blocks: npt.NDArray[np.uint8]) -> NumberSum:
    """Of whole blocks; zeros are those that no scale can tell from zero, or blocks of nothing but zero bits."""
    found = NumberSum(tensor=tensor, first=int.from_bytes(blocks[0].tobytes()))
    found.constant = bool((blocks[0] == blocks[-1]).all()) and bool((blocks == blocks[0]).all())
    for dtype, words in scales(tensor.dtype, blocks):
        field = _plain_summary(tensor, words, _SPECIAL[dtype])
        found.elements += field.elements
        found.nans += field.nans
        found.infinities += field.infinities
        found.zero = found.zero and field.zero and (dtype != "F8_E8M0" or (found.constant and not found.first))
    return found


def _plain_summary(tensor: TensorInfo, block: Block, bits: _Bits) -> NumberSum:
    import numpy as np

    found = NumberSum(tensor=tensor, first=int(block[0]), elements=len(block))
    samples = {found.first, int(block[len(block) // 2]), int(block[-1])}
    found.constant = len(samples) == 1 and int(block.min()) == int(block.max())
    if not bits.signed:
        found.zero = found.constant and found.first == 0
        if bits.nan < 1 << bits.width:
            found.nans = int(np.count_nonzero(block == bits.nan))
        return found
    mask = (1 << (bits.width - 1)) - 1
    lowest = bits.infinity or bits.nan
    gathered = int(np.bitwise_or.reduce(block)) & mask  # no magnitude is over this
    found.zero = gathered == 0
    if gathered < lowest:
        return found
    top = int(block.max())
    largest = max(int(block.view(f"i{bits.width // 8}").max()), top & mask if top > mask else 0)
    if largest >= lowest:
        magnitudes = block & block.dtype.type(mask)
        found.nans = int(np.count_nonzero(magnitudes >= bits.nan))
        if bits.infinity is not None:
            found.infinities = int(np.count_nonzero(magnitudes == bits.infinity))
    return found
