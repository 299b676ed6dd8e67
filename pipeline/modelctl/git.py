"""The git binary, called with explicit arguments on one repository; its failures become our errors.

Only what the registry, the rollout and the audit need. Hooks and signing follow the person's own git configuration.
"""

from __future__ import annotations

import codecs
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from modelctl.errors import InputError, ModelctlError

_SIGNATURE = re.compile(
    r"^-----BEGIN (SSH|PGP) (SIGNATURE|MESSAGE)-----$|^-----BEGIN SIGNED MESSAGE-----$", re.MULTILINE
)
_MISSING = "git is not installed"
_SIGNING = "git is set up to sign and can't: git config --get-regexp 'gpg|signing', and is the key there?"


class GitError(ModelctlError):
    """git said no; the message holds its own words."""


class Git:
    """One working tree."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def containing(cls, path: Path) -> Git:
        """The repository that holds `path`. Raises `InputError` when there is none."""
        start = path if path.is_dir() else path.parent
        try:
            top = Git(start).run("rev-parse", "--show-toplevel").strip()
        except GitError as error:
            raise InputError(f"{start} is not in a git repository", remedy=f"git init {start}") from error
        return cls(Path(top))

    def run(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Output of `git <arguments>`; "" for a failure when `check` is off. Raises `GitError`."""
        try:
            done = subprocess.run(
                ["git", "-C", str(self.root), *arguments],
                input=stdin,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
        except FileNotFoundError as error:
            raise GitError(_MISSING, remedy="apt-get install git") from error
        if done.returncode == 0:
            return done.stdout
        if not check:
            return ""
        words = done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}"
        raise GitError(f"git {arguments[0]}: {words}", remedy=_remedy(words))

    def words(self, *arguments: str) -> Iterator[str]:
        """Output of `git <arguments>`, cut at its NULs, while git is still at work. Raises `GitError` at its end."""
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    ["git", "-C", str(self.root), *arguments], stdout=subprocess.PIPE, stderr=errors
                )
            except FileNotFoundError as error:
                raise GitError(_MISSING, remedy="apt-get install git") from error
            with process:
                decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
                rest = ""
                try:
                    while process.stdout is not None and (piece := os.read(process.stdout.fileno(), 1 << 16)):
                        *whole, rest = (rest + decoder.decode(piece)).split("\0")
                        yield from whole
                except GeneratorExit:  # nobody wants the rest
                    process.kill()
                    raise
            if process.returncode:
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip()
                raise GitError(f"git {arguments[0]}: {said or f'status {process.returncode}'}", remedy=_remedy(said))
            yield rest + decoder.decode(b"", final=True)

    def head(self) -> str | None:
        """The commit of HEAD, or None before the first one."""
        return self.run("rev-parse", "--verify", "--quiet", "HEAD", check=False).strip() or None

    def commit(self, paths: Sequence[Path], subject: str, *, body: str = "", trailers: Mapping[str, str]) -> str | None:
        """Commit exactly `paths` (whatever else is staged stays staged). Returns the commit, or None when nothing
        changed."""
        names = [str(path) for path in paths]
        self.run("add", "--all", "--", *names)
        if not self.run("status", "--porcelain", "--untracked-files=no", "--", *names).strip():
            return None
        message = "\n\n".join(
            part for part in (subject, body, "\n".join(f"{k}: {v}" for k, v in trailers.items())) if part
        )
        self.run("commit", "--quiet", "--file=-", "--only", "--", *names, stdin=message + "\n")
        return self.head()

    def tag(self, name: str, message: str, *, at: str = "HEAD") -> None:
        """Create an annotated tag on a commit, signed where git is set up to sign.

        An equal one already there is fine, another is a `GitError`.
        """
        existing = self.run("rev-parse", "--verify", "--quiet", f"refs/tags/{name}^{{commit}}", check=False).strip()
        if existing:
            if existing != self.run("rev-parse", "--verify", f"{at}^{{commit}}").strip():
                raise GitError(f"tag {name} already points at {existing[:12]}", remedy=f"git show {name}")
            return
        signs = self._signs()
        self.run("tag", "--sign" if signs else "--annotate", "--file=-", name, at, stdin=message + "\n")
        if signs and not _SIGNATURE.search(self.run("cat-file", "tag", name)):
            # git 2.39 makes an unsigned tag, and says that all is well, when ssh-keygen can't sign
            self.run("tag", "--delete", name)
            raise GitError(f"git tag: {name} could not be signed", remedy=_SIGNING)

    def fetch(self, remote: str, *, timeout_s: float) -> bool:
        """Whether a remote's branches could be fetched in that time; nobody is asked for a password."""
        try:
            done = subprocess.run(
                ["git", "-C", str(self.root), "fetch", "--quiet", remote],
                env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=timeout_s,
            )
        except (FileNotFoundError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0

    def tracks(self, path: Path) -> bool:
        """Whether git knows a file."""
        return bool(self.run("ls-files", "--", str(path), check=False).strip())

    def ignores(self, path: Path) -> bool:
        """Whether git leaves a file or folder out: it is ignored, and nothing of it is tracked."""
        return bool(self.run("check-ignore", "--", str(path), check=False).strip()) and not self.tracks(path)

    def _signs(self) -> bool:
        """Whether the person's git signs tags, or at least commits: whoever signs those wants release tags signed."""
        options = ("tag.gpgSign", "tag.forceSignAnnotated", "commit.gpgSign")
        return any(self.run("config", "--type=bool", option, check=False).strip() == "true" for option in options)

    def blobs(self, specs: Sequence[str]) -> tuple[bytes | None, ...]:
        """The content of many objects (`<commit>:<path from the top>`) by one process; None where there is none.

        Raises `GitError`, and `InputError` for a name with a line break, which the protocol has no words for.
        """
        output = self._cat_file("--batch", specs)
        contents: list[bytes | None] = []
        position = 0
        for _ in specs:
            end = output.find(b"\n", position)
            header = output[position:end]
            position = end + 1
            fields = header.split(b" ")
            if len(fields) == 3 and fields[1] == b"blob" and fields[2].isdigit():
                size = int(fields[2])
                contents.append(output[position : position + size])
                position += size + 1
            elif header.endswith((b" missing", b" ambiguous")):
                contents.append(None)
            else:
                raise GitError(f"git cat-file: {header.decode(errors='replace')}: no file")
        return tuple(contents)

    def object_ids(self, specs: Sequence[str]) -> tuple[str | None, ...]:
        """The ids of many objects, named as for `blobs` (folders too), by one process; None where there is none.

        Raises as `blobs` does.
        """
        lines = self._cat_file("--batch-check", specs).decode(errors="replace").split("\n")
        return tuple(None if line.endswith((" missing", " ambiguous")) else line.split(" ")[0] for line in lines[:-1])

    def _cat_file(self, mode: str, specs: Sequence[str]) -> bytes:
        if any("\n" in spec for spec in specs):
            raise InputError("a path of this repository holds a line break", remedy="git ls-files shows it, quoted")
        # files for what goes in and for errors: with one pipe left, what comes out is read in one go
        with tempfile.TemporaryFile() as names, tempfile.TemporaryFile() as errors:
            names.write("".join(f"{spec}\n" for spec in specs).encode())
            names.seek(0)
            done = subprocess.run(
                ["git", "--no-replace-objects", "-C", str(self.root), "cat-file", mode],
                stdin=names,
                stdout=subprocess.PIPE,
                stderr=errors,
                check=False,
            )
            if done.returncode:
                errors.seek(0)
                raise GitError(f"git cat-file: {errors.read().decode(errors='replace').strip()}")
        return done.stdout

    def show(self, ref: str, path: str) -> str | None:
        """The text of a file at a commit, or None when it is not there."""
        return self.run("show", f"{ref}:{path}", check=False) or None


def _remedy(words: str) -> str | None:
    if "tell me who you are" in words or "empty ident" in words:
        return "git config user.name '…' && git config user.email '…'"
    if "gpg failed to sign" in words or "failed to write commit object" in words or "unable to sign" in words:
        return _SIGNING
    if "index.lock" in words:
        return "another git is at work; wait for it, then run the same command again"
    return None
