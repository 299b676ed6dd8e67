"""Where the blocks of GGUF's packed types hold their scales: the only places of a block that can be NaN or infinite.

A block multiplies small whole numbers by its scales and may add an offset, so a scale that is no number makes a whole
block none, and a block whose scales and offsets are all zero is zero whatever else it holds. Layouts are those of
ggml's `ggml-common.h`; which of the fields are judged is what ggml's own `ggml_validate_row_data` looks at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from modelctl.model.gguf_tensors import GGML_TYPES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Words = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True, kw_only=True)
class _Field:
    """Numbers of one type that lie side by side in a block."""

    offset: int
    dtype: str = "F16"
    """As safetensors names it."""
    count: int = 1


_D = (_Field(offset=0),)
_D_AND_MIN = (_Field(offset=0, count=2),)
_FIELDS: Mapping[str, tuple[_Field, ...]] = {
    "Q4_0": _D, "Q4_1": _D_AND_MIN, "Q5_0": _D, "Q5_1": _D_AND_MIN, "Q8_0": _D, "Q8_1": _D_AND_MIN, "Q1_0": _D,
    "Q2_0": _D, "Q2_K": (_Field(offset=80, count=2),), "Q3_K": (_Field(offset=108),), "Q4_K": _D_AND_MIN,
    "Q5_K": _D_AND_MIN, "Q6_K": (_Field(offset=208),), "Q8_K": (_Field(offset=0, dtype="F32"),), "IQ2_XXS": _D,
    "IQ2_XS": _D, "IQ2_S": _D, "IQ3_XXS": _D, "IQ3_S": _D, "IQ1_S": _D, "IQ4_NL": _D, "IQ4_XS": _D,
    "TQ1_0": (_Field(offset=52),), "TQ2_0": (_Field(offset=64),), "MXFP4": (_Field(offset=0, dtype="F8_E8M0"),),
    "NVFP4": (_Field(offset=0, dtype="F8_E4M3", count=4),),
}  # fmt: skip
_SPREAD = "IQ1_M"
"""Its one F16 scale lies in the upper four bits of four words at `_SPREAD_AT`, the lowest bits first."""
_SPREAD_AT = 48
_WIDTHS = {"F16": 2, "F32": 4, "F8_E8M0": 1, "F8_E4M3": 1}

BLOCK_SIZES: Mapping[str, int] = {name: size for name, elements, size in GGML_TYPES.values() if elements > 1}
"""Bytes of one block, by type."""


def scales(kind: str, blocks: Bytes) -> Iterator[tuple[str, Words]]:
    """The scales of whole blocks (blocks × bytes of a block), as words and the type of safetensors that they have.

    A type that `BLOCK_SIZES` has yields at least one field.
    """
    import numpy as np

    if kind == _SPREAD:
        words = np.ascontiguousarray(blocks[:, _SPREAD_AT : _SPREAD_AT + 8]).view("<u2")
        nibbles = words >> np.array([12, 8, 4, 0], np.uint16) & np.array([0xF, 0xF0, 0xF00, 0xF000], np.uint16)
        yield "F16", np.bitwise_or.reduce(nibbles, axis=1)
        return
    for item in _FIELDS[kind]:
        width = _WIDTHS[item.dtype]
        held = np.ascontiguousarray(blocks[:, item.offset : item.offset + width * item.count])
        yield item.dtype, held.view(f"<u{width}").ravel()
