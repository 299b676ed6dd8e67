"""`modelctl new`: a release file that admit understands, with what can be read filled in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.model.release import load_release
from tests.support.command import modelctl
from tests.support.hub import LocalHub
from tests.support.models import tiny_llama

CARD = "---\nlicense: apache-2.0\nbase_model: acme/base\n---\n# Tiny\n"


def test_a_hub_repository_is_pinned_and_read_without_its_weights(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "model")
    files = {path.name: path.read_bytes() for path in folder.iterdir()} | {"README.md": CARD.encode()}
    with LocalHub() as hub:
        commit = hub.push("acme/tiny", files)
        env = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
        done = modelctl("new", "tiny", "--from", "acme/tiny", cwd=tmp_path, env=env)
        asked = "\n".join(hub.requests)
    assert done.returncode == 0, done.stderr
    assert "registry/tiny/1.0.0/release.yaml is written" in done.stdout.splitlines()
    assert "next: decide these in the file, then modelctl admit tiny@1.0.0" in done.stdout
    assert ".safetensors" not in asked
    spec = load_release(tmp_path / "registry" / "tiny" / "1.0.0" / "release.yaml").spec
    assert (spec.source.hub, spec.source.revision, spec.license) == ("acme/tiny", commit, "apache-2.0")
    assert (spec.serving.max_model_len, spec.policy) == (256, "production")
    assert "the model that this one was made from" in done.stdout


def test_a_folder_for_a_gpu_and_a_recipe(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "model")
    done = modelctl(
        "new", "tiny", "--from", "model", "--gpu", "L4", "--quantize", "4", "--version", "2.1.0", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    path = tmp_path / "registry" / "tiny" / "2.1.0" / "release.yaml"
    spec = load_release(path).spec
    assert (str(spec.source.folder), spec.serving.gpu.count, spec.serving.tensor_parallel_size) == ("model", 1, 1)
    assert spec.quantization is not None
    assert spec.quantization.bits == 4
    text = path.read_text(encoding="utf-8")
    assert "# decide: the licence; no model card names one" in text
    assert "# L4, as modelctl size has it" in text


def test_weights_that_sizing_does_not_know_are_proposed_all_the_same(tmp_path: Path) -> None:
    model = tiny_llama(tmp_path / "model")
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    done = modelctl("new", "tiny", "--from", "model", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "# not read: model: the weights are in pytorch_model.bin" in json.loads(done.stdout)["text"]


@pytest.mark.parametrize(
    ("origin", "key"), [("s3://models/incoming/tiny", "s3"), ("tiny.dvc", "dvc"), ("adapter", "folder")]
)
def test_what_can_not_be_read_is_said(tmp_path: Path, origin: str, key: str) -> None:
    (tmp_path / "tiny.dvc").write_text("outs: []\n", encoding="utf-8")
    (tmp_path / "adapter").mkdir()
    done = modelctl("new", "tiny", "--from", origin, "--json", cwd=tmp_path)
    body = json.loads(done.stdout)
    assert f"    {key}: " in body["text"]
    assert "# not read: " in body["text"]
    assert "the longest prompt and answer together, in tokens" in body["undecided"]
    assert load_release(Path(body["path"])).id == "tiny@1.0.0"


def test_a_dry_run_prints_the_file_and_a_second_run_overwrites_nothing(tmp_path: Path) -> None:
    tiny_llama(tmp_path / "model")
    printed = modelctl("new", "tiny", "--from", "model", "--dry-run", cwd=tmp_path)
    assert printed.stdout.startswith("apiVersion: modelctl.dev/v1\n")
    assert not (tmp_path / "registry").exists()
    assert modelctl("new", "tiny", "--from", "model", cwd=tmp_path).returncode == 0
    again = modelctl("new", "tiny", "--from", "model", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (2, "")
    assert "give another --version" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["Tiny!", "--from", "model"], "is not NAME@VERSION"),
        (["tiny", "--from", "./nothing"], "neither a folder here nor a Hub id"),
        (["tiny", "--from", "model", "--gpu", "Z9"], "Z9"),
        (["tiny", "--from", "s3://models/x", "--gpu", "L4"], "leave --gpu out"),
    ],
)
def test_bad_input(tmp_path: Path, arguments: list[str], words: str) -> None:
    tiny_llama(tmp_path / "model")
    done = modelctl("new", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert not (tmp_path / "registry").exists()
