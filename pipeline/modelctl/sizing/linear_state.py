"""The state of a linear-attention layer (gated delta rule: Qwen3-Next and its kin), which does not grow with length.

A layer keeps the last inputs of its short convolution and one matrix a value head, as vLLM's
`MambaStateShapeCalculator` counts them. A block of the shared pool holds one such state, so vLLM makes blocks of
attention at least as large.
"""

from __future__ import annotations

from modelctl.errors import CannotDecideError
from modelctl.model.config import ModelConfig

ELEMENT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float": 4, "half": 2}
"""Bytes of one number by config.json's names."""
_KEYS = (
    "linear_num_key_heads", "linear_key_head_dim", "linear_num_value_heads", "linear_value_head_dim",
    "linear_conv_kernel_dim",
)  # fmt: skip


def state_bytes(config: ModelConfig, tensor_parallel_size: int) -> int:
    """Bytes of one layer's state for one sequence on one rank. Raises `CannotDecideError` when a size is not stated."""
    found = [config.text.get(key) for key in _KEYS]
    sizes = [size for size in found if isinstance(size, int) and not isinstance(size, bool) and size > 0]
    if len(sizes) != len(_KEYS):
        raise CannotDecideError(
            f"the KV cache of this model is not computed: linear layers without {', '.join(_KEYS)} in config.json"
        )
    key_heads, key_dim, value_heads, value_dim, kernel = sizes
    channels = 2 * key_heads * key_dim + value_heads * value_dim
    element = ELEMENT_BYTES.get(config.dtype or "bfloat16", 2)
    convolution = (kernel - 1) * channels // tensor_parallel_size * element
    matrices = value_heads // tensor_parallel_size * key_dim * value_dim * element
    return convolution + matrices
