"""Policy and waivers from the base branch: what the working tree says of them is told and not followed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from modelctl.admission import policy_files
from modelctl.admission.rulebook import load_rulebook
from modelctl.errors import InputError
from modelctl.settings import load_workspace
from tests.support.repos import commit_file, git_repository
from tests.support.waivers import write_waiver

HEAD = "apiVersion: modelctl.dev/v1\nkind: AdmissionPolicy\nmetadata: {name: ours}\n"
STRICT = HEAD + "spec: {extends: production, checks: {concurrency: {streams: 90}}}\n"
WEAK = HEAD + "spec: {extends: production, checks: {concurrency: {streams: 1}}}\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git = git_repository(tmp_path)
    commit_file(git, "policies/ours.yaml", STRICT)
    commit_file(git, "modelctl.yaml", "policy: ours\n")
    return tmp_path


def test_a_policy_that_the_working_tree_relaxes_is_judged_by_the_old_one_and_says_so(root: Path) -> None:
    (root / "policies" / "ours.yaml").write_text(WEAK)
    book = load_rulebook(load_workspace(root, environ={}), ref="main")
    assert book.policy.policy.spec.checks.concurrency.streams == 90
    (note,) = book.described().notes
    assert "this working tree changes policies/ours.yaml (the policy itself)" in note
    assert book.described().place is not None
    assert "(main)" in str(book.described().place)
    assert load_rulebook(load_workspace(root, environ={})).policy.policy.spec.checks.concurrency.streams == 1


def test_settings_waivers_and_new_policies_of_the_working_tree_do_not_count(root: Path) -> None:
    (root / "modelctl.yaml").write_text("policy: demo\n")
    (root / "policies" / "new.yaml").write_text(WEAK.replace("ours", "new"))
    write_waiver(root)
    workspace = load_workspace(root, environ={})
    book = load_rulebook(workspace, ref="main")
    assert (book.policy.name, book.waivers.waivers) == ("ours", ())
    assert [note.split(" (")[0].removeprefix("this working tree ") for note in book.notes] == [
        "adds policies/new.yaml", "adds policies/waivers/one.yaml", "changes modelctl.yaml",
    ]  # fmt: skip
    with pytest.raises(InputError, match="no policy 'new'"):
        load_rulebook(workspace, option="new", ref="main")


def test_a_release_does_not_choose_its_own_policy_there(root: Path) -> None:
    workspace = load_workspace(root, environ={})
    assert load_rulebook(workspace, of_release="demo").policy.name == "demo"
    book = load_rulebook(workspace, of_release="demo", ref="main")
    assert book.policy.name == "ours"
    assert "the release names the policy 'demo'; it is judged by 'ours'" in book.notes[0]
    assert load_rulebook(workspace, option="production", of_release="demo", ref="main").policy.name == "production"


def test_a_variable_of_the_runner_names_the_policy(root: Path) -> None:
    workspace = load_workspace(root, environ={"MODELCTL_POLICY": "production"})
    assert load_rulebook(workspace, ref="main").policy.name == "production"


def test_waivers_of_the_commit_hold(root: Path) -> None:
    git = git_repository(root)
    path = write_waiver(root)
    git.commit([path], "Waive", trailers={})
    path.unlink()
    book = load_rulebook(load_workspace(root, environ={}), ref="main")
    assert [waiver.file for waiver in book.waivers.waivers] == ["policies/waivers/one.yaml"]
    assert "removes policies/waivers/one.yaml" in book.notes[0]


def test_built_in_policies_inside_the_working_tree_do_not_count(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_files, "built_in_folder", lambda: root / "policies")
    with pytest.raises(InputError, match="no policy 'production'"):
        load_rulebook(load_workspace(root, environ={}), ref="main")


def test_those_of_an_ignored_environment_in_it_do(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = root / ".venv" / "lib" / "policies"
    shutil.copytree(policy_files.built_in_folder(), installed)
    (root / ".gitignore").write_text(".venv/\n")
    monkeypatch.setattr(policy_files, "built_in_folder", lambda: installed)
    assert load_rulebook(load_workspace(root, environ={}), option="production", ref="main").policy.name == "production"
    git_repository(root).run("add", "--force", ".venv")
    with pytest.raises(InputError, match="no policy 'production'"):
        load_rulebook(load_workspace(root, environ={}), option="production", ref="main")


def test_a_file_is_named_from_where_one_stands_and_in_a_commit_from_the_root(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = root / "below" / "policies"
    below.mkdir(parents=True)
    (below / "ours.yaml").write_text(WEAK)
    monkeypatch.chdir(root / "below")
    workspace = load_workspace(root, environ={})
    here = load_rulebook(workspace, option="policies/ours.yaml").policy.policy
    assert here.spec.checks.concurrency.streams == 1
    there = load_rulebook(workspace, option="policies/ours.yaml", ref="main").policy.policy
    assert there.spec.checks.concurrency.streams == 90
    with pytest.raises(InputError, match=r"no policy file below/policies/ours\.yaml at "):
        load_rulebook(workspace, option="below/policies/ours.yaml", ref="main")


def test_a_registry_below_the_top_of_the_repository(tmp_path: Path) -> None:
    git = git_repository(tmp_path)
    commit_file(git, "models/policies/ours.yaml", STRICT)
    commit_file(git, "models/modelctl.yaml", "policy: ours\n")
    book = load_rulebook(load_workspace(tmp_path / "models", environ={}), ref="main")
    assert book.policy.policy.spec.checks.concurrency.streams == 90
    assert book.notes == ()


@pytest.mark.parametrize("ref", ["origin/nowhere", "--help", ""])
def test_a_commit_that_is_not_there(root: Path, ref: str) -> None:
    with pytest.raises(InputError, match="no such commit"):
        load_rulebook(load_workspace(root, environ={}), ref=ref)
