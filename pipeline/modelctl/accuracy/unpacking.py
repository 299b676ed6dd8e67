"""GPTQ and AWQ models with their weights as the numbers they stand for, unpacked once.

Both models of a comparison then run through the same kernels, and only their weights differ. gptqmodel's own kernels
for a processor add differences of their own: the one that takes float32 rounds its input to bfloat16 (7.6.0). Used in
the isolated child only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def load_gptq(folder: str, *, half: Any, dtype: Any, device: str) -> Any:
    """A GPTQ model in `dtype`; `half` is its own half type. transformers' loader makes zeros of modules that stay
    unquantised, gptqmodel's does not."""
    from gptqmodel import BACKEND, GPTQModel
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear

    packed = GPTQModel.load(folder, device=device, dtype=half, backend=BACKEND.GPTQ_TORCH, trust_remote_code=False)

    def weights(module: Any) -> Any:
        module.scales = module.scales.float()
        return TorchLinear.dequantize_weight(module)

    return _unpacked(packed.model, TorchLinear, weights, dtype)


def load_awq(folder: str, *, half: Any, dtype: Any, device: str) -> Any:
    """An AWQ model in `dtype`; `half` is its own half type."""
    from gptqmodel.nn_modules.qlinear.torch_awq import AwqTorchLinear
    from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    config.quantization_config = {**config.quantization_config, "backend": "torch_awq"}
    packed = AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=half, trust_remote_code=False)

    def weights(module: Any) -> Any:
        return dequantize_gemm(module.qweight, module.qzeros, module.scales.float(), module.bits, module.group_size)

    return _unpacked(packed, AwqTorchLinear, weights, dtype).to(device)


def _unpacked(model: Any, kind: type, weights: Callable[[Any], Any], dtype: Any) -> Any:
    """The model with a plain linear layer in the place of every packed one; `weights` gives inputs by outputs."""
    import torch

    packed: list[tuple[str, Any]] = [each for each in model.named_modules() if isinstance(each[1], kind)]
    if not packed:
        raise ValueError("config.json says that the weights are quantised, and no module of the model is")
    for name, module in packed:
        plain = torch.nn.Linear(module.in_features, module.out_features, bias=module.bias is not None, device="meta")
        plain.weight = torch.nn.Parameter(weights(module).T.to(dtype).contiguous(), requires_grad=False)
        if module.bias is not None:
            plain.bias = torch.nn.Parameter(module.bias.to(dtype), requires_grad=False)
        model.set_submodule(name, plain)
    if dtype == torch.float32:
        torch.nn.Module.float(model)  # transformers' own refuses what was quantised when it was loaded
    return model
