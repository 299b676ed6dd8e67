"""Linear layers of half-precision numbers on a processor without arithmetic for them: multiplied in float32, rounded
once.

That is what processors with such arithmetic do too: products are summed in float32, and the sum is rounded. PyTorch's
own way without it takes five times as long (measured, AVX2). Used in the isolated child only.
"""

from __future__ import annotations

from typing import Any


def widen() -> None:
    """Let every linear layer of this process compute in float32 what is in a half type."""
    import torch
    import torch.nn.functional as F  # noqa: N812 - as everyone names it

    linear = F.linear

    def wide(input: Any, weight: Any, bias: Any = None) -> Any:  # noqa: A002 - the library's name
        if weight.dtype not in (torch.bfloat16, torch.float16):
            return linear(input, weight, bias)
        return linear(input.float(), weight.float(), None if bias is None else bias.float()).to(weight.dtype)

    F.linear = wide
