"""Half types multiplied in float32: the sum of exact products, rounded once, as processors with the arithmetic do."""

from __future__ import annotations

import subprocess
import sys

import pytest

TRIAL = """
import torch
from modelctl.accuracy.widening import widen

plain = torch.nn.Linear(64, 48)
states = torch.randn(5, 64)
before = plain(states)
widen()
assert torch.equal(plain(states), before), "float32 stays as it was"
for half in (torch.bfloat16, torch.float16):
    layer, given = torch.nn.Linear(64, 48).to(half), states.to(half)
    wanted = given.float() @ layer.weight.float().T + layer.bias.float()
    assert layer(given).dtype == half
    assert torch.allclose(layer(given).float(), wanted, rtol=2 ** -8, atol=1e-3), half
    assert layer.bias is not None and torch.nn.Linear(64, 48, bias=False).to(half)(given).dtype == half
"""


@pytest.mark.slow
def test_a_linear_layer_keeps_its_type_and_sums_in_float32() -> None:
    done = subprocess.run([sys.executable, "-I", "-c", TRIAL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
