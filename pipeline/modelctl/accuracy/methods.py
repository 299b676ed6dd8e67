"""Which weights that others have quantised can be loaded and measured here, told by config.json before any loading.

The words are those that transformers takes as `quant_method`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass

from modelctl.accuracy.tools import has_gpu
from modelctl.errors import CannotDecideError
from modelctl.model.strict_json import Json


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What measuring a method takes beside torch, transformers and gptqmodel."""

    package: str | None = None
    """A Python package, by the name that is imported."""
    gpu: bool = False


METHODS: Mapping[str, Needs] = {
    "gptq": Needs(),
    "awq": Needs(),
    "compressed-tensors": Needs(package="compressed_tensors"),
    "bitsandbytes": Needs(package="bitsandbytes"),
    "fp8": Needs(gpu=True),
    "fbgemm_fp8": Needs(package="fbgemm_gpu", gpu=True),
    "mxfp4": Needs(gpu=True),
}
_GPU_FORMATS = ("marlin", "bitblas", "gemv_fast")
"""Layouts of GPTQ and AWQ that only GPU kernels read."""


def method_of(recipe: Mapping[str, Json]) -> str:
    """The name of the method that a `quantization_config` describes; `unnamed` when it does not say."""
    named = recipe.get("quant_method")
    if isinstance(named, str) and named:
        return named
    if "config_groups" in recipe:
        return "compressed-tensors"  # what llm-compressor wrote before it named itself
    return "bitsandbytes" if "load_in_8bit" in recipe or "load_in_4bit" in recipe else "unnamed"


def require_measurable(recipe: Mapping[str, Json]) -> None:
    """Raise `CannotDecideError` when weights of this recipe can't be measured on this machine, with the reason."""
    method = method_of(recipe)
    needs = METHODS.get(method)
    if needs is None:
        raise CannotDecideError(
            f"the weights are quantised by a method that is not measured here ({method})",
            remedy=f"those that are: {', '.join(METHODS)}; or let modelctl quantise the original (quantization:)",
        )
    layout = recipe.get("checkpoint_format", recipe.get("version"))
    if (needs.gpu or (isinstance(layout, str) and layout.lower() in _GPU_FORMATS)) and not has_gpu():
        raise CannotDecideError(
            f"the weights are quantised by {method}, which is measured on a GPU only, and there is none",
            remedy="admit the release on a machine with a GPU",
        )
    if needs.package is not None and importlib.util.find_spec(needs.package) is None:
        name = needs.package.replace("_", "-")
        raise CannotDecideError(
            f"the weights are quantised by {method}, and measuring them needs {name}, which is not installed",
            remedy=f"pip install {name}",
        )
