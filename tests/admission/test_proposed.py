"""The releases of a pull request, from real git."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.admission.proposed import proposed
from modelctl.errors import InputError, RefusedError
from modelctl.git import Git
from tests.support.repos import commit_file, git_repository

FILE = "registry/tiny/1.0.0/release.yaml"


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """A repository with a published release, on a pull request's branch."""
    git = git_repository(tmp_path)
    commit_file(git, "registry/old/1.0.0/release.yaml", "old\n")
    commit_file(git, "registry/old/1.0.0/record.yaml", "old\n")
    git.run("checkout", "--quiet", "-b", "proposal")
    return git


def test_added_and_changed_releases(git: Git) -> None:
    commit_file(git, FILE, "tiny\n")
    commit_file(git, "registry/old/1.0.0/release.yaml", "new\n")
    commit_file(git, "README.md", "more\n")
    commit_file(git, "registry/README.md", "more\n")
    found = proposed(git.root, base="main")
    assert [(item.release, item.file, item.change) for item in found] == [
        ("old@1.0.0", "registry/old/1.0.0/release.yaml", "changed"),
        ("tiny@1.0.0", FILE, "added"),
    ]


def test_what_main_got_meanwhile_is_not_the_pull_requests(git: Git) -> None:
    commit_file(git, FILE, "tiny\n")
    git.run("checkout", "--quiet", "main")
    commit_file(git, "registry/other/1.0.0/release.yaml", "other\n")
    assert [item.release for item in proposed(git.root, base="main", head="proposal")] == ["tiny@1.0.0"]


def test_a_release_that_is_taken_out_is_not_judged(git: Git) -> None:
    git.run("rm", "--quiet", "registry/old/1.0.0/release.yaml")
    git.run("commit", "--quiet", "--message", "Take it out")
    assert proposed(git.root, base="main") == ()


@pytest.mark.parametrize(
    "name",
    [
        "registry/tiny/1.0.0/admission.json",
        "registry/tiny/release.yaml",
        "registry/tiny/1.0.0/deeper/release.yaml",
        "registry/Tiny/1.0.0/release.yaml",
        "registry/tiny/latest/release.yaml",
        "registry/$(touch owned)/1.0.0/release.yaml",
        "registry/tiny/1.0.0/release.yaml\n",
    ],
)
def test_anything_else_is_refused(git: Git, name: str) -> None:
    commit_file(git, FILE, "tiny\n")
    commit_file(git, name, "forged\n")
    with pytest.raises(RefusedError, match=r"is no registry/<name>/<version>/release\.yaml"):
        proposed(git.root, base="main")


def test_a_symbolic_link_is_refused(git: Git) -> None:
    path = git.root / FILE
    path.parent.mkdir(parents=True)
    path.symlink_to("../../../README.md")
    git.commit([path], "Link", trailers={})
    with pytest.raises(RefusedError, match="is a symbolic link"):
        proposed(git.root, base="main")


def test_a_registry_below_the_top_of_the_repository(git: Git) -> None:
    commit_file(git, f"models/{FILE}", "tiny\n")
    (found,) = proposed(git.root / "models", base="main")
    assert (found.release, found.file) == ("tiny@1.0.0", FILE)


@pytest.mark.parametrize("base", ["origin/main", "--output=x"])
def test_a_commit_that_is_not_there(git: Git, base: str) -> None:
    with pytest.raises(InputError, match="no such commit"):
        proposed(git.root, base=base)
