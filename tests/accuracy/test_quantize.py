"""Quantising for real: a tiny Llama in the sandbox, with gptqmodel."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from modelctl.accuracy.quantize import Quantized, quantize
from modelctl.errors import CannotDecideError, InputError
from modelctl.isolation import IsolationKind, Sandbox
from modelctl.model.release import Quantization
from modelctl.model.safetensors import read_header
from modelctl.model.tree import Tree, scan_tree
from modelctl.progress import SILENT
from tests.support.models import tiny_llama

RECIPE = Quantization(group_size=32, exclude=("self_attn",), calibration_samples=4)


class Recorder:
    """A progress that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.task = SILENT.task

    def note(self, message: str) -> None:
        self.notes.append(message)


def run(
    source: Tree,
    folder: Path,
    progress: Recorder | None = None,
    recipe: Quantization = RECIPE,
    isolation: IsolationKind | None = None,
) -> Quantized:
    return quantize(
        source,
        recipe,
        staging=folder / "staging",
        cache=folder / "cache",
        sandbox=Sandbox(isolation),
        progress=progress or Recorder(),
        time_limit_s=300,
        memory_limit_bytes=8 << 30,
    )


def test_weights_that_are_quantised_already_are_refused(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "awq"}}))
    with pytest.raises(InputError, match=r"quantised already \(awq\)"):
        run(scan_tree(folder), tmp_path)


def test_a_group_size_that_does_not_fit_is_refused_before_any_work(tmp_path: Path) -> None:
    source = scan_tree(tiny_llama(tmp_path / "model", hidden=64))
    with pytest.raises(InputError, match="does not divide"):
        run(source, tmp_path, recipe=Quantization(group_size=128))
    assert not (tmp_path / "staging").exists()


def test_a_child_sees_where_links_lead(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "snapshot")
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    (folder / "model.safetensors").rename(blobs / "abc")
    (folder / "model.safetensors").symlink_to(blobs / "abc")
    assert scan_tree(folder, link_roots=[blobs]).folders == [folder, blobs]


@pytest.mark.slow
def test_a_tiny_model_is_quantised_placed_whole_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_llama(tmp_path / "model", layers=2, hidden=64)
    (folder / "LICENSE").write_text("a licence\n")
    (folder / "tekken.json").write_text("{}\n")
    (folder / "notes.md").write_text("not needed by an engine\n")
    source = scan_tree(folder)
    (tmp_path / "staging" / ".making-0-killed").mkdir(parents=True)
    progress = Recorder()
    quantized = run(source, tmp_path, progress)
    made = quantized.tree
    assert progress.notes == [
        "6 matrices of 2 layers (0.0492 million weights) to 4 bits in groups of 32; 0.0454 million weights stay "
        "bfloat16",
        "4 samples of 256 tokens to calibrate with (shipped)",
        "estimate: 0.9 GB of memory, 0.00 GB of weights, time is told after the second layer",
        f"{tmp_path / 'staging'} keeps 1 quantised model, 0 MB; one goes 30 days after its last use",
    ]
    facts = quantized.made
    assert (facts.modules, facts.left_alone, facts.device, facts.differs_from) == (6, (), "cpu", None)
    assert facts.text_tokens >= 4 * 256
    assert facts.peak_memory_bytes > 200 << 20
    assert quantized.warnings == ("calibrated with 4 samples, 256 or more are advised (calibration_samples)",)

    assert made.root == tmp_path / "staging" / made.digest.removeprefix("sha256:")
    assert scan_tree(made.root).digest == made.digest
    assert [path.name for path in (tmp_path / "staging").iterdir()] == [made.root.name], "leftovers"
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "LICENSE", "tekken.json"):
        assert made.by_path[name].sha256 == source.by_path[name].sha256, name
    assert "notes.md" not in made.by_path
    config = json.loads((made.root / "config.json").read_text())
    recipe = config.pop("quantization_config")
    assert config == json.loads((folder / "config.json").read_text())
    assert (recipe["quant_method"], recipe["bits"], recipe["group_size"]) == ("gptq", 4, 32)
    assert str(tmp_path) not in json.dumps(recipe)
    tensors = {tensor.name: tensor.dtype for tensor in read_header(made.root / "model.safetensors").tensors}
    assert tensors["model.layers.0.self_attn.q_proj.weight"] == "BF16"
    assert tensors["model.layers.1.mlp.down_proj.qweight"] == "I32"
    assert "model.layers.1.mlp.down_proj.weight" not in tensors

    progress = Recorder()
    reused = run(source, tmp_path, progress)
    assert (reused.tree.digest, reused.made, reused.reused) == (made.digest, facts, True)
    assert progress.notes == ["the quantised model is reused"]

    with (made.root / "model.safetensors").open("r+b") as stream:
        stream.seek(-1, 2)
        stream.write(b"\x55")
    progress, current = Recorder(), tmp_path / "current"
    current.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(current))
    again = run(source, tmp_path, progress, isolation="none")
    assert list(current.iterdir()) == [], "gptqmodel's log goes with the folder of the run, isolated or not"
    assert progress.notes[0].endswith("its bytes are not what was made; quantising again")
    assert again.tree.digest == made.digest, "the same recipe makes the same bytes"
    assert again.made.differs_from is None
    assert "at the rate of an earlier run on this machine" in progress.notes[3]


@pytest.mark.slow
def test_a_model_that_does_not_load_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "nosuchmodel"}))
    with pytest.raises(CannotDecideError, match=r"accuracy\.quantize_worker ended"):
        run(scan_tree(folder), tmp_path)
    assert list((tmp_path / "staging").iterdir()) == []
