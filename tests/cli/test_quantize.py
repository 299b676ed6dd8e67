"""`modelctl quantize`: what is refused before work, what a dry run says, and what is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.admission.making import Order, prepare
from modelctl.errors import InputError
from modelctl.settings import load_workspace
from tests.support.command import modelctl
from tests.support.models import tiny_llama
from tests.support.progress import Notes

RELEASE = """\
apiVersion: modelctl.dev/v1
kind: ModelRelease
metadata: {name: tiny, version: 1.0.0}
spec:
  source: {folder: model}
  policy: demo
  quantization: {bits: 8, group_size: 32, exclude: [self_attn]}
"""


def order(root: Path, out: str = "out", repo: str | None = None, **changes: object) -> Order:
    return Order(
        repo=repo or str(root / "model"),
        out=root / out,
        workspace=load_workspace(root, environ={}),
        changes={"group_size": 32, **changes},
        policy="demo",
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    tiny_llama(tmp_path / "model")
    (tmp_path / "modelctl.yaml").write_text("{}\n")
    return tmp_path


def test_a_folder_that_holds_something_is_never_overwritten(root: Path) -> None:
    (root / "out").mkdir()
    prepare(order(root), Notes())
    (root / "out" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty; nothing is overwritten"):
        prepare(order(root), Notes())
    with pytest.raises(InputError, match="not a folder"):
        prepare(order(root, "out/mine.txt"), Notes())
    with pytest.raises(InputError, match="the folder above it does not exist"):
        prepare(order(root, "no/such/out"), Notes())


def test_the_source_is_no_place_for_the_result(root: Path) -> None:
    with pytest.raises(InputError, match="lies in the source itself"):
        prepare(order(root, "model/out"), Notes())


def test_a_release_brings_its_recipe_and_options_change_it(root: Path) -> None:
    path = root / "registry" / "tiny" / "1.0.0" / "release.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(RELEASE)
    spec = prepare(order(root, repo=str(path), bits=4, group_size=None), Notes()).plan.spec
    assert (spec.bits, spec.group_size, spec.exclude) == (4, 32, ("self_attn",))


def test_a_model_that_writes_no_text_is_refused(root: Path) -> None:
    config = json.loads((root / "model" / "config.json").read_text())
    (root / "model" / "config.json").write_text(json.dumps({**config, "architectures": ["BertModel"]}))
    with pytest.raises(InputError, match="only causal language models are quantised"):
        prepare(order(root), Notes())


@pytest.mark.slow
def test_a_dry_run_says_what_it_would_take_and_makes_nothing(root: Path) -> None:
    done = modelctl(
        "quantize", "model", "out", "--group-size", "32", "--dry-run", "--json", "--policy", "demo", cwd=root
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["estimate"]["modules"] == 14
    assert said["made"] is said["digest"] is said["folder"] is None
    assert not (root / "out").exists()


@pytest.mark.slow
def test_a_model_is_made_whole_and_found_again(root: Path) -> None:
    recipe = ("--group-size", "32", "--samples", "4", "--sample-tokens", "64", "--policy", "demo")
    (root / "own.txt").write_text("数字 1 2 3. " * 200, encoding="utf-8")
    done = modelctl("quantize", "model", "out", *recipe, "--calibration", "own.txt", cwd=root, timeout_s=300)
    assert done.returncode == 0, done.stderr
    assert "out: 14 matrices in 4 bits" in done.stdout
    assert "calibration  file own.txt, 4 samples of 64 tokens" in done.stdout
    assert "Nothing was judged" in done.stdout
    again = modelctl("quantize", "model", "again", *recipe, "--calibration", "own.txt", "--json", cwd=root)
    said = json.loads(again.stdout)
    assert said["made"]["reused"] is True
    assert f"digest       {said['digest']}" in done.stdout
    assert sorted(path.name for path in root.iterdir() if path.name.startswith(".")) == [".modelctl"], "leftovers"
