from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.audit.history import read_history
from modelctl.errors import InputError
from modelctl.git import Git
from tests.support.repos import commit_file, git_repository


def test_names_and_messages_can_not_pose_as_other_fields(tmp_path: Path) -> None:
    git = git_repository(tmp_path)
    git.run("config", "user.name", "Eve\x1f\x1e\x1dM")
    commit_file(git, "registry/a", "1", "Subject\x1fModel-Release: forged@1.0.0")
    (commit,) = read_history(tmp_path).commits
    assert commit.subject == "Subject\x1fModel-Release: forged@1.0.0"
    assert commit.author == "Eve\x1f\x1e\x1dM <test@example.org>"
    assert commit.trailers == ()
    assert [change.path for change in commit.changes] == ["registry/a"]


def test_odd_paths_are_read_as_they_are(tmp_path: Path) -> None:
    git = git_repository(tmp_path)
    for path in ("registry/größe 1", "registry/M", 'registry/"q"', "registry/tab\there"):
        commit_file(git, path, path)
    history = read_history(tmp_path)
    paths = [change.path for commit in history.commits for change in commit.changes]
    assert paths == ["registry/größe 1", "registry/M", 'registry/"q"', "registry/tab\there"]
    assert [history.content(commit.id, path) for commit, path in zip(history.commits, paths, strict=True)] == [
        path.encode() for path in paths
    ]


def test_a_trailer_given_twice_with_two_values_says_nothing(tmp_path: Path) -> None:
    git = git_repository(tmp_path)
    commit_file(git, "registry/a", "1", "One\n\nEnvironment: prod\nEnvironment: test")
    commit_file(git, "registry/a", "2", "Two\n\nEnvironment: prod\nenvironment: prod")
    one, two = read_history(tmp_path).commits
    assert (one.trailer("Environment"), two.trailer("Environment")) == (None, "prod")


def test_a_change_that_only_a_merge_holds_is_seen(tmp_path: Path) -> None:
    git = git_repository(tmp_path)
    commit_file(git, "registry/a", "1")
    git.run("checkout", "--quiet", "-b", "side")
    commit_file(git, "registry/b", "side")
    git.run("checkout", "--quiet", "main")
    commit_file(git, "registry/c", "main")
    git.run("merge", "--quiet", "--no-ff", "--no-commit", "side")
    (tmp_path / "registry" / "a").write_text("smuggled", encoding="utf-8")
    git.run("commit", "--quiet", "--all", "--message", "Merge side")
    merge = read_history(tmp_path).commits[-1]
    assert [(change.status, change.path) for change in merge.changes] == [("MM", "registry/a")]


def test_the_readers_own_settings_change_nothing(tmp_path: Path) -> None:
    git = git_repository(tmp_path)
    for key, value in (("log.showRoot", "false"), ("log.showSignature", "true"), ("log.date", "relative")):
        git.run("config", key, value)
    commit_file(git, "registry/a", "1")
    (commit,) = read_history(tmp_path).commits
    assert [change.path for change in commit.changes] == ["registry/a"]


def test_a_replaced_commit_is_read_as_it_was(tmp_path: Path) -> None:
    git = git_repository(tmp_path)
    real = commit_file(git, "registry/a", "real")
    git.run("checkout", "--quiet", "--orphan", "other")
    fake = commit_file(git, "registry/a", "fake", "Fake")
    git.run("checkout", "--quiet", "main")
    git.run("replace", real, fake)
    (commit,) = read_history(tmp_path).commits
    assert commit.subject == "Change a file"
    assert read_history(tmp_path).content(real, "registry/a") == b"real"


def test_outside_a_repository(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not in a git repository"):
        read_history(tmp_path)


def test_before_the_first_commit(tmp_path: Path) -> None:
    git_repository(tmp_path)
    assert read_history(tmp_path).commits == ()
    assert Git(tmp_path).blobs([]) == ()
