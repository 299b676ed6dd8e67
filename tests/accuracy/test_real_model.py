"""The whole way on a real model: SmolLM2-135M-Instruct in 4 bits everywhere is measured to be worse, and refused; with
its scales scrambled it is worse still."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from modelctl.accuracy.quantize import Quantized, quantize
from modelctl.checks.base import CheckContext, Observation, Scalar
from modelctl.checks.quantization import CHECK, EVIDENCE, QuantizationLimits
from modelctl.isolation import Sandbox
from modelctl.model.release import Quantization
from modelctl.model.safetensors import read_header
from modelctl.model.tree import scan_tree
from modelctl.progress import SILENT
from tests.support.contexts import KeptEvidence, tree_context

MODEL = Path(__file__).resolve().parents[2] / ".cache" / "models" / "SmolLM2-135M-Instruct"
QUESTIONS = 400
RECIPE = Quantization(bits=4, group_size=64, calibration_samples=8, calibration_tokens=256)


@dataclass(frozen=True)
class Made:
    """The model in 4 bits, and a context whose cache has the original's answers once they were given."""

    quantized: Quantized
    context: CheckContext[QuantizationLimits]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    assert MODEL.is_dir(), f"no {MODEL}: run make setup"
    folder = tmp_path_factory.mktemp("real-model")
    limits = QuantizationLimits(tasks=("modelctl_easy",), questions=QUESTIONS)
    context = tree_context(MODEL, limits, scratch=folder / "scratch")
    quantized = quantize(
        context.tree,
        RECIPE,
        staging=folder / "staging",
        cache=context.cache,
        sandbox=Sandbox(),
        progress=SILENT,
        time_limit_s=1800,
        memory_limit_bytes=8 << 30,
    )
    return Made(quantized, context)


def figures(observation: Observation) -> Mapping[str, Scalar]:
    """The figures that are there once."""
    return {item.name: item.value for item in observation.measurements if not item.name.endswith("-change")}


@pytest.mark.long
def test_four_bits_everywhere_lose_points_on_the_same_questions(made: Made) -> None:
    tree = made.quantized.tree
    context = replace(made.context, served=tree, tree=tree, quantization=RECIPE, made=made.quantized)
    observation = CHECK.run(context)
    seen = figures(observation)
    assert isinstance(seen["accuracy-baseline"], float)
    assert 0.8 < seen["accuracy-baseline"] < 0.97
    (finding,) = observation.findings
    assert finding.rule == "quantization.accuracy-drop"
    assert observation.undecided == ()
    assert observation.coverage[0].seen == QUESTIONS
    assert isinstance(seen["bits-per-byte-rise"], float)
    assert 0 < seen["bits-per-byte-rise"] < 1
    evidence = context.evidence
    assert isinstance(evidence, KeptEvidence)
    assert evidence.kept[EVIDENCE].count(b"\n") == QUESTIONS

    before = len(list((context.cache / "evaluations").iterdir()))
    assert CHECK.run(context).measurements == observation.measurements, "a second run reuses the answers"
    assert len(list((context.cache / "evaluations").iterdir())) == before


@pytest.mark.long
def test_scrambled_scales_are_refused_and_the_sums_go_first(made: Made, tmp_path: Path) -> None:
    damaged = scan_tree(scrambled(made.quantized.tree.root, tmp_path / "damaged"))
    observation = CHECK.run(replace(made.context, served=damaged, tree=damaged, baseline=made.context.source))
    seen = figures(observation)
    assert [finding.rule for finding in observation.findings] == ["quantization.accuracy-drop"]
    assert isinstance(seen["accuracy-drop-lower"], float)
    assert seen["accuracy-drop-lower"] > 30
    assert isinstance(seen["bits-per-byte-rise"], float)
    assert seen["bits-per-byte-rise"] > 1
    sums = next(item for item in observation.measurements if item.parameters.get("subject") == "sums")
    assert isinstance(sums.value, int)
    assert sums.value < -10


def scrambled(source: Path, target: Path) -> Path:
    """A copy in which each layer's scales are shuffled among its groups and outputs: well-formed, and wrong."""
    shutil.copytree(source, target)
    path = target / "model.safetensors"
    header = read_header(path)
    random = np.random.default_rng(0)
    with path.open("r+b") as stream:
        for tensor in header.tensors:
            if tensor.name.endswith(".scales"):
                stream.seek(header.data_start + tensor.begin)
                scales = np.frombuffer(stream.read(tensor.end - tensor.begin), dtype="<u2")
                stream.seek(header.data_start + tensor.begin)
                stream.write(random.permutation(scales).tobytes())
    return target
