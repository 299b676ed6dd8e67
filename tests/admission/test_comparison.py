"""One model against another: what is understood, by which figures, and the same verdict as an admission's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelctl.admission.comparison import Comparison, changed, compare
from modelctl.admission.policy import load_policy
from modelctl.errors import InputError
from modelctl.progress import SILENT
from modelctl.settings import load_workspace
from tests.support.command import modelctl
from tests.support.models import tiny_llama


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "modelctl.yaml").write_text("policy: demo\n")
    return tmp_path


def comparison(root: Path, **changes: object) -> Comparison:
    workspace = load_workspace(root, environ={})
    return Comparison(**{"repo": "a", "against": "b", "workspace": workspace, **changes})  # type: ignore[arg-type] # by name


def test_the_figures_given_go_before_the_policys_and_move_its_digest(root: Path) -> None:
    demo = load_policy("demo", root)
    assert changed(demo, comparison(root)).digest == demo.digest
    other = changed(demo, comparison(root, tasks=("mmlu_stem",), questions=3000))
    limits = other.policy.spec.checks.quantization
    assert (limits.tasks, limits.questions) == (("mmlu_stem",), 3000)
    assert limits.max_drop_points == demo.policy.spec.checks.quantization.max_drop_points
    assert other.digest != demo.digest


def test_a_number_of_questions_that_no_policy_may_have_is_refused(root: Path) -> None:
    with pytest.raises(InputError, match=r"policy demo with the options given: .*questions"):
        changed(load_policy("demo", root), comparison(root, questions=10))


def test_a_release_that_is_still_to_be_quantised_is_sent_to_an_admission(root: Path) -> None:
    tiny_llama(root / "model")
    folder = root / "registry" / "tiny" / "1.0.0"
    folder.mkdir(parents=True)
    release = {
        "apiVersion": "modelctl.dev/v1",
        "kind": "ModelRelease",
        "metadata": {"name": "tiny", "version": "1.0.0"},
        "spec": {"source": {"folder": "model"}, "quantization": {"group_size": 32}},
    }
    (folder / "release.yaml").write_text(json.dumps(release))
    with pytest.raises(InputError, match="still to be quantised") as caught:
        compare(comparison(root, repo="tiny@1.0.0", against=str(root / "model")), SILENT)
    assert caught.value.remedy == "modelctl admit tiny@1.0.0 --check quantization: it quantises, then compares"


def test_the_original_has_to_be_named(root: Path) -> None:
    done = modelctl("evaluate", "model", cwd=root)
    assert done.returncode == 2
    assert "--against" in done.stderr


@pytest.mark.slow
def test_a_model_that_only_guesses_decides_nothing_and_the_other_is_not_asked(root: Path) -> None:
    tiny_llama(root / "model")
    tiny_llama(root / "other", seed=1)
    arguments = ("evaluate", "./other", "--against", "./model", "--questions", "100", "--json", "-")
    done = modelctl(*arguments, cwd=root, timeout_s=400)
    assert done.returncode == 3, done.stderr
    (check,) = json.loads(done.stdout)["checks"]
    assert "which guessing would reach too" in check["undecided"][0]["reason"]
    assert [item["name"] for item in check["measurements"]] == ["accuracy-baseline"]
    assert len(list((root / ".modelctl" / "cache" / "evaluations").iterdir())) == 1
    again = modelctl(*arguments, "--quiet", cwd=root, timeout_s=60)
    assert json.loads(again.stdout)["checks"][0]["measurements"] == check["measurements"]
