"""Real git repositories for tests, apart from the person's own git configuration."""

from __future__ import annotations

from pathlib import Path

from modelctl.git import Git

CONFIG = """\
[user]
	name = Test Person
	email = test@example.org
[commit]
	gpgsign = false
[tag]
	gpgsign = false
[core]
	hooksPath = /dev/null
"""


def git_repository(folder: Path) -> Git:
    """An empty repository with an identity, on branch main."""
    folder.mkdir(parents=True, exist_ok=True)
    git = Git(folder)
    git.run("init", "--quiet", "--initial-branch=main", "--template=")
    with (folder / ".git" / "config").open("a", encoding="utf-8") as config:
        config.write(CONFIG)
    return git


def commit_file(git: Git, path: str, text: str, subject: str = "Change a file") -> str:
    """Write a file and commit it; returns the commit."""
    target = git.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    commit = git.commit([target], subject, trailers={})
    assert commit is not None
    return commit
