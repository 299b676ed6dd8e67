"""Where policies, waivers and signers are read from: the working tree, or a commit that a pull request can't touch.

Both give text by its path in the registry repository. With a commit nothing of the working tree counts: not its
policies, and not the built-in ones either where the program itself lies in that working tree. An environment that git
ignores (`.venv`) is no part of it: nothing of a pull request gets there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Protocol

from modelctl.documents import MAX_DOCUMENT_BYTES, read_text
from modelctl.errors import InputError
from modelctl.git import Git, GitError

POLICIES = "policies"
SETTINGS = "modelctl.yaml"


class RuleFiles(Protocol):
    """Files of a registry repository, by path with forward slashes from its root."""

    @property
    def root(self) -> Path:
        """The registry repository's folder."""

    def read(self, path: str) -> str | None:
        """The text of a file, or None when there is none. Raises `InputError` when it can't be read."""

    def listing(self, folder: str) -> Sequence[str]:
        """The paths of the files right in a folder, sorted; none when there is no such folder."""

    def place(self, path: str) -> str:
        """How errors and reports name a file."""

    @property
    def built_in(self) -> Path | None:
        """The policies that come with modelctl, or None where they belong to the working tree that does not count."""


def built_in_folder() -> Path:
    """The policies that come with modelctl."""
    return Path(str(resources.files("modelctl") / "policies"))


@dataclass(frozen=True)
class FolderFiles:
    """The working tree, as it lies there."""

    root: Path

    def read(self, path: str) -> str | None:
        """See `RuleFiles`."""
        file = self.root / path
        return read_text(file) if file.exists() else None

    def listing(self, folder: str) -> Sequence[str]:
        """See `RuleFiles`."""
        if not (self.root / folder).is_dir():
            return ()
        return sorted(f"{folder}/{item.name}" for item in (self.root / folder).iterdir() if item.is_file())

    def place(self, path: str) -> str:
        """See `RuleFiles`."""
        return str(self.root / path)

    @property
    def built_in(self) -> Path | None:
        """See `RuleFiles`."""
        return built_in_folder()


@dataclass(frozen=True)
class CommitFiles:
    """A commit of the repository that holds `root`; `ref` is how it was asked for."""

    root: Path
    ref: str
    commit: str
    prefix: str
    """The root's place in the git repository: "" or a folder with a slash at its end."""

    @classmethod
    def at(cls, root: Path, ref: str) -> CommitFiles:
        """Resolve `ref`, once. Raises `InputError` when there is no such commit, or no git repository."""
        git = Git.containing(root)
        try:
            commit = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").strip()
        except GitError as error:
            raise InputError(
                f"--policy-ref {ref}: no such commit in {git.root}",
                remedy="git fetch origin, then name a branch (origin/main), a tag or a commit that is there",
            ) from error
        inside = root.resolve().relative_to(git.root.resolve()).as_posix()
        return cls(root, ref, commit, "" if inside == "." else f"{inside}/")

    @cached_property
    def _git(self) -> Git:
        return Git.containing(self.root)

    def read(self, path: str) -> str | None:
        """See `RuleFiles`."""
        (content,) = self._git.blobs([f"{self.commit}:{self.prefix}{path}"])
        return None if content is None else text_of(content, self.place(path))

    def listing(self, folder: str) -> Sequence[str]:
        """See `RuleFiles`."""
        listed = self._git.run("ls-tree", "-z", self.commit, "--", f":(top,literal){self.prefix}{folder}/")
        entries = [entry.partition("\t") for entry in listed.split("\0")]
        return sorted(name.removeprefix(self.prefix) for kind, _, name in entries if kind.split(" ")[1:2] == ["blob"])

    def place(self, path: str) -> str:
        """See `RuleFiles`."""
        return f"{path} at {self.commit[:12]} ({self.ref})"

    @cached_property
    def built_in(self) -> Path | None:
        """See `RuleFiles`."""
        folder = built_in_folder()
        inside = folder.resolve().is_relative_to(self._git.root.resolve())
        return None if inside and not self._git.ignores(folder.resolve()) else folder


def rule_files(root: Path, ref: str | None) -> RuleFiles:
    """The working tree at `root`, or the commit that `ref` names. Raises `InputError` for an unknown one."""
    return FolderFiles(root) if ref is None else CommitFiles.at(root, ref)


def text_of(content: bytes, place: str) -> str:
    """A file of git as text, without a byte order mark. Raises `InputError` when it is too large or no UTF-8."""
    if len(content) > MAX_DOCUMENT_BYTES:
        raise InputError(f"{place}: larger than {MAX_DOCUMENT_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: not UTF-8 at byte {error.start}") from error
