"""The kernel that the demo brings for an engine whose build has none reads weights as the engine packs them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
ENGINE = PROJECT / ".venv-engine" / "bin" / "python"
TRIAL = """
import sys
sys.path.insert(0, sys.argv[1])
import demo_wna16
import torch
from vllm.model_executor.layers.quantization.utils.quant_utils import pack_quantized_values_into_int32 as pack
from vllm.scalar_type import scalar_types

bits, inputs, outputs, groups = scalar_types.uint4b8, 64, 96, 2
numbers = torch.randint(0, 16, (inputs, outputs), dtype=torch.int32)
scales = torch.rand(groups, outputs).bfloat16()
zeros = torch.randint(0, 16, (groups, outputs), dtype=torch.int32)
# What the engine's CPUWNA16LinearKernel makes of GPTQ weights when it loads them.
packed = pack(numbers, bits, 1).view(inputs, -1, 2).permute(1, 0, 2).reshape(-1, inputs * 2).contiguous()
for middles, given in ((torch.full_like(zeros, 8), None), (zeros, pack(zeros, bits, 1))):
    wanted = (numbers.view(groups, -1, outputs) - middles[:, None]) * scales.float()[:, None]
    assert torch.equal(demo_wna16.weights(packed, scales, given), wanted.view(inputs, outputs))
if not torch.cpu._is_avx512_supported():
    from vllm import _custom_ops
    demo_wna16.register()
    states, bias = torch.randn(3, 5, inputs), torch.randn(outputs)
    given = pack(zeros, bits, 1)
    answer = _custom_ops.cpu_gemm_wna16(states, packed, scales, given, bias, 8, "vec")
    assert torch.allclose(answer, states @ wanted.view(inputs, outputs) + bias, atol=1e-4)
"""


@pytest.mark.engine
@pytest.mark.slow
def test_it_reads_what_the_engine_packs(tmp_path: Path) -> None:
    assert ENGINE.is_file(), "run: make setup"
    plugin = PROJECT / "demo" / "engine_plugin"
    done = subprocess.run([ENGINE, "-c", TRIAL, plugin], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
