"""What the report says of weights that modelctl quantised."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from modelctl.accuracy.quantize import Quantized
from modelctl.accuracy.staging import Made
from modelctl.checks.quantization_making import of_making
from modelctl.model.release import Calibration, Quantization
from modelctl.model.tree import Tree

SPEC = Quantization(group_size=64, exclude=("self_attn",), calibration=Calibration(file=Path("ours.txt")))
MADE = Made(
    tree_digest="sha256:a",
    recipe_digest="sha256:b",
    calibration="file ours.txt",
    calibration_sha256="c",
    samples=256,
    sample_tokens=512,
    text_tokens=200_000,
    modules=90,
    left_alone=(),
    device="cpu",
    threads=2,
    instructions="AVX2",
    versions={"gptqmodel": "7.6.0"},
    work=1e12,
    seconds=60.0,
    peak_memory_bytes=1 << 30,
)


def quantized(**changes: object) -> Quantized:
    made = replace(MADE, **changes)  # type: ignore[arg-type] # by name
    return Quantized(tree=Tree(root=Path(), files=()), made=made, reused=False)


def test_every_parameter_that_moves_the_bytes_is_in_one_measurement() -> None:
    seen = of_making(quantized(), SPEC)
    (measurement,) = seen.measurements
    assert (measurement.name, measurement.value) == ("quantised-modules", 90)
    wanted = {
        "method": "gptq", "bits": 4, "group_size": 64, "desc_act": False, "exclude": "self_attn",
        "calibration_samples": 256, "calibration_tokens": 512, "quantization_seed": 0, "calibration": "file ours.txt",
        "calibration_sha256": "c", "threads": 2, "instructions": "AVX2", "device": "cpu",
    }  # fmt: skip
    assert wanted.items() <= measurement.parameters.items()
    assert measurement.parameters["same_bytes_with"] == (
        "2 threads and AVX2 on a processor; others may round otherwise"
    )
    assert seen.tools == {"gptqmodel": "7.6.0"}
    assert seen.warnings == ()


def test_what_weakens_it_is_said() -> None:
    seen = of_making(
        quantized(samples=16, device="cuda", left_alone=("model.layers.0.mlp.gate",), differs_from="sha256:x"), SPEC
    )
    few, left, gpu, differs = seen.warnings
    assert few.startswith("calibrated with 16 samples")
    assert "left 1 matrices as they are that no pattern excludes: model.layers.0.mlp.gate" in left
    assert "GPU" in gpu
    assert "sha256:x" in differs
    assert seen.measurements[0].parameters["same_bytes_with"] == "not promised: made on a GPU"
