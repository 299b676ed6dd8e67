"""git is real; commits hold exactly the named paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.errors import InputError
from modelctl.git import Git, GitError
from tests.support.keys import ssh_key


@pytest.fixture
def git(tmp_path: Path) -> Git:
    repository = Git(tmp_path)
    repository.run("init", "--quiet", "--initial-branch=main")
    repository.run("config", "user.name", "Test Person")
    repository.run("config", "user.email", "test@example.org")
    return repository


def write(git: Git, name: str, text: str) -> Path:
    path = git.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_commit_holds_its_paths_its_trailers_and_nothing_else(git: Git) -> None:
    mine, other = write(git, "a/mine", "1"), write(git, "other", "2")
    git.run("add", "other")
    commit = git.commit([mine], "Add mine", body="Because.", trailers={"Model-Release": "tiny@1.0.0"})
    assert commit == git.head()
    assert git.run("show", "--name-only", "--format=").split() == ["a/mine"]
    assert git.run("log", "-1", "--format=%(trailers:key=Model-Release,valueonly)").strip() == "tiny@1.0.0"
    assert git.run("diff", "--cached", "--name-only").split() == ["other"]
    assert other.exists()


def test_nothing_changed_makes_no_commit(git: Git) -> None:
    path = write(git, "a", "1")
    git.commit([path], "Add a", trailers={})
    assert git.commit([path], "Add a", trailers={}) is None


def test_a_deletion_is_committed(git: Git) -> None:
    path = write(git, "a", "1")
    write(git, "keep", "1")
    git.commit([path, git.root / "keep"], "Add", trailers={})
    path.unlink()
    assert git.commit([path], "Remove a", trailers={}) is not None
    assert git.show("HEAD", "a") is None
    assert git.show("HEAD", "keep") == "1"


@pytest.mark.parametrize("option", ["tag.gpgSign", "tag.forceSignAnnotated", "commit.gpgSign"])
def test_a_tag_is_signed_where_git_is_set_up_to_sign(git: Git, tmp_path: Path, option: str) -> None:
    """A real key of ssh-keygen's, verified by git with a list of allowed signers."""
    key = ssh_key(tmp_path / "keys" / "key")
    allowed = tmp_path / "keys" / "allowed"
    allowed.write_text(f"test@example.org {key.with_suffix('.pub').read_text()}")
    for name, value in (
        ("gpg.format", "ssh"), ("user.signingKey", str(key)), ("gpg.ssh.allowedSignersFile", str(allowed)),
    ):  # fmt: skip
        git.run("config", name, value)
    git.commit([write(git, "a", "1")], "Add a", trailers={})
    git.tag("plain@v1.0.0", "not set up yet")
    git.run("config", option, "true")
    git.tag("tiny@v1.0.0", "tiny@1.0.0\n\nModel-Digest: sha256:ab")
    assert "BEGIN SSH SIGNATURE" in git.run("cat-file", "tag", "tiny@v1.0.0")
    git.run("verify-tag", "tiny@v1.0.0")
    assert "Model-Digest: sha256:ab" in git.run("for-each-ref", "--format=%(contents)", "refs/tags/tiny@v1.0.0")
    with pytest.raises(GitError):
        git.run("verify-tag", "plain@v1.0.0")
    key.unlink()
    with pytest.raises(GitError) as caught:
        git.tag("tiny@v2.0.0", "second")
    assert "set up to sign and can't" in str(caught.value.remedy)
    assert git.run("tag", "--list", "tiny@v2*") == ""


def test_a_tag_is_made_once(git: Git) -> None:
    git.commit([write(git, "a", "1")], "Add a", trailers={})
    git.tag("tiny@v1.0.0", "first")
    git.tag("tiny@v1.0.0", "first")
    git.commit([write(git, "b", "1")], "Add b", trailers={})
    with pytest.raises(GitError, match="already points at"):
        git.tag("tiny@v1.0.0", "second")


def test_git_errors_come_with_their_words(git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GitError, match="nonesuch"):
        git.run("rev-parse", "nonesuch")
    git.run("config", "--unset", "user.name")
    git.run("config", "--unset", "user.email")
    git.run("config", "user.useConfigOnly", "true")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    with pytest.raises(GitError) as caught:
        git.commit([write(git, "a", "1")], "Add a", trailers={})
    assert caught.value.remedy is not None
    assert "user.name" in caught.value.remedy


def test_outside_a_repository_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    with pytest.raises(InputError, match="not in a git repository"):
        Git.containing(tmp_path)


def test_words_come_while_git_works_and_hold_any_bytes(git: Git) -> None:
    for number in range(3):
        git.commit([write(git, "a", "ä" * number)], f"Größe {number}", trailers={})
    subjects = list(git.words("log", "-z", "--format=%s", "--reverse"))
    assert subjects == ["Größe 0", "Größe 1", "Größe 2", ""]
    path = git.root / "long.bin"
    path.write_bytes("€".encode() * 100_000 + b"\xff\0rest")
    first, rest = git.words("cat-file", "blob", git.run("hash-object", "-w", str(path)).strip())
    assert (first, rest) == ("€" * 100_000 + "\ufffd", "rest")  # no letter is torn by the pieces in which it comes


def test_words_of_a_command_that_fails_are_an_error_and_unwanted_ones_end_it(git: Git) -> None:
    with pytest.raises(GitError, match="git log: fatal"):
        list(git.words("log", "-z", "no-such-commit"))
    path = git.root / "zeros"
    path.write_bytes(b"\0" * 5_000_000)
    words = git.words("cat-file", "blob", git.run("hash-object", "-w", str(path)).strip())
    assert next(words) == ""
    words.close()  # returns once git has ended
