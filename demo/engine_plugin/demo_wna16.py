"""4-bit weights for the demo's engine on a processor without AVX-512, for which its build has no kernel.

vLLM loads this as a plugin, in every process of it, from the folder that `engine.env` names as PYTHONPATH. It supplies
the one operator that is missing, in PyTorch: weights are unpacked once, and multiplied in float32. Production needs
none of this: GPUs, and processors with AVX-512, have kernels of their own.
"""

from __future__ import annotations

from typing import Any

OPERATOR = (
    "cpu_gemm_wna16(Tensor input, Tensor q_weight, Tensor(a2!) output, Tensor scales, Tensor? zeros, Tensor? bias, "
    "SymInt pack_factor, str isa_hint) -> ()"
)
_BLOCK = 16
"""Outputs that the engine packs side by side."""
_BITS = 4
_MIDDLE = 8
"""The number that stands for zero where a model brings no zeros of its own."""


def register() -> None:
    """Define the operator where the engine's build lacks it."""
    import torch

    if torch.cpu._is_avx512_supported() or hasattr(torch.ops._C, "cpu_gemm_wna16"):
        return
    unpacked: dict[int, Any] = {}

    def multiply(states: Any, q_weight: Any, output: Any, scales: Any, zeros: Any, bias: Any, *_: Any) -> None:
        key = q_weight.data_ptr()
        if key not in unpacked:
            unpacked[key] = weights(q_weight, scales, zeros)
        product = torch.matmul(states.float(), unpacked[key])
        output.copy_(product if bias is None else product + bias.float())

    library = torch.library.Library("_C", "FRAGMENT")
    library.define(OPERATOR)
    library.impl("cpu_gemm_wna16", multiply, "CPU")
    register.library = library  # type: ignore[attr-defined] # it is undone when nobody holds it


def weights(q_weight: Any, scales: Any, zeros: Any) -> Any:
    """The matrix (inputs by outputs, float32) that packed words stand for: eight outputs in a word, the lowest first;
    two words of each input in a block of 16 outputs."""
    groups, outputs = scales.shape
    words = _BLOCK * _BITS // 32
    inputs = q_weight.numel() // (outputs // _BLOCK * words)
    rows = q_weight.reshape(outputs // _BLOCK, inputs, words).permute(1, 0, 2).reshape(inputs, -1)
    numbers = _nibbles(rows).reshape(groups, inputs // groups, outputs)
    middles = _MIDDLE if zeros is None else _nibbles(zeros)[:, None]
    return ((numbers - middles) * scales.float()[:, None]).reshape(inputs, outputs)


def _nibbles(words: Any) -> Any:
    import torch

    shifts = torch.arange(0, 32, _BITS, dtype=torch.int32)
    return ((words[:, :, None] >> shifts) & 15).reshape(len(words), -1)
