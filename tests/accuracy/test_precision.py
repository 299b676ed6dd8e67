"""In which type two models are compared, and that packed weights are the numbers that they stand for in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelctl.accuracy import precision
from modelctl.accuracy.precision import Demand, choose, multiplies, widened, working_dtype
from modelctl.errors import CannotDecideError
from modelctl.model.config import ModelConfig, parse_config

BF16_MODEL = parse_config({"model_type": "llama", "dtype": "bfloat16"})
FLAGS = {
    "avx2": "flags\t\t: fpu sse2 avx avx2 fma f16c\n",
    "avx512": "processor\t: 0\nflags\t\t: avx2 avx512f avx512bw avx512vl avx512dq\nbugs\t\t: spectre\n",
    "amx": "flags : avx512bw avx512dq avx512vl amx_bf16 avx512_fp16\n",
    "arm": "Features\t: fp asimd asimdhp bf16 i8mm\n",
    "older arm": "Features\t: fp asimd\n",
}


@pytest.mark.parametrize(
    ("machine", "bfloat16", "float16"),
    [
        ("avx2", False, False),
        ("avx512", True, False),
        ("amx", True, True),
        ("arm", True, True),
        ("older arm", False, False),
    ],
)
def test_a_processor_says_what_it_multiplies(tmp_path: Path, machine: str, bfloat16: bool, float16: bool) -> None:
    said = tmp_path / "cpuinfo"
    said.write_text(FLAGS[machine])
    assert multiplies("bfloat16", said) is bfloat16
    assert multiplies("float16", said) is float16
    assert not multiplies("bfloat16", tmp_path / "nothing")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets whether there is a GPU, and whether the processor has the arithmetic."""

    def be(*, gpu: bool, arithmetic: bool) -> None:
        monkeypatch.setattr(precision, "has_gpu", lambda: gpu)
        monkeypatch.setattr(precision, "multiplies", lambda dtype: arithmetic)

    return be


@pytest.mark.parametrize(
    ("gpu", "arithmetic", "recipe", "dtype", "because"),
    [
        (True, False, {"quant_method": "gptq"}, "bfloat16", "on a GPU"),
        (False, True, {"quant_method": "gptq"}, "bfloat16", "which this processor multiplies"),
        (False, False, {"quant_method": "gptq"}, "float32", "no bfloat16 arithmetic"),
        (False, False, {"quant_method": "awq"}, "float32", "no bfloat16 arithmetic"),
        (False, False, {"quant_method": "compressed-tensors"}, "bfloat16", "kernels of compressed-tensors"),
    ],
)
def test_the_models_own_type_where_the_machine_multiplies_it_else_float32(
    machine: Any, gpu: bool, arithmetic: bool, recipe: dict[str, Any], dtype: str, because: str
) -> None:
    machine(gpu=gpu, arithmetic=arithmetic)
    chosen = choose("auto", BF16_MODEL, [recipe])
    assert chosen.dtype == dtype
    assert because in chosen.because
    assert widened("bfloat16") is (not gpu and not arithmetic)
    assert not widened("float32")


@pytest.mark.parametrize("demanded", ["bfloat16", "float16", "float32"])
def test_a_policy_may_demand_a_type(machine: Any, demanded: Demand) -> None:
    machine(gpu=True, arithmetic=True)
    chosen = choose(demanded, BF16_MODEL, [{"quant_method": "gptq"}])
    assert (chosen.dtype, chosen.because) == (demanded, "the policy demands it (quantization.dtype)")


def test_kernels_that_know_half_types_only_are_not_asked_for_float32() -> None:
    with pytest.raises(CannotDecideError, match="weights quantised by fp8 are multiplied in half types only") as caught:
        choose("float32", BF16_MODEL, [{"quant_method": "fp8"}])
    assert caught.value.remedy == "write quantization.dtype: auto in the policy"


@pytest.mark.parametrize(
    ("stated", "used"), [("bfloat16", "bfloat16"), ("float16", "float16"), ("float32", "bfloat16")]
)
def test_a_models_own_half_type_is_the_one_that_engines_have(stated: str, used: str) -> None:
    config: ModelConfig = parse_config({"model_type": "llama", "dtype": stated})
    assert working_dtype(config) == used
