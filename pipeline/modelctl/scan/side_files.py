"""Files beside a model that make other programs run something: lists of packages, `.pth` files, start-up modules of
Python, shell scripts, git's own configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

MAX_LINES_TOLD = 5
_REQUIREMENTS = re.compile(
    r"(.*[._-])?(requirements|constraints)([._-].*)?\.(txt|in)|pipfile|environment\.ya?ml|conda\.ya?ml"
)
_ELSEWHERE = re.compile(
    r"^\s*(?:-{1,2}\s*)?(?:--?(?:index-url|extra-index-url|find-links|trusted-host|editable|[ife])\b"
    r"|.*(?:git|hg|svn|bzr)\+\w+|.*@\s*(?:https?|ftp|file)://|(?:https?|ftp|file)://\S+|\S+\.(?:whl|tar\.gz|zip)\s*$)",
    re.IGNORECASE,
)
"""Lines of pip's requirements that leave the package index: other indexes, URLs, archives, editable folders."""
_STARTUP = ("sitecustomize.py", "usercustomize.py")
_PTH_IMPORT = re.compile(rb"^import[ \t]", re.MULTILINE)
_FETCH_AND_RUN = re.compile(
    rb"\b(?:curl|wget|fetch)\b[^\n;&]*\|\s*(?:sudo\s+)?(?:ba|z|da|k)?sh\b|\b(?:ba|z|da|k)?sh\b[^\n]*\$\((?:curl|wget)\b"
    rb"|<\((?:curl|wget)\b|/dev/(?:tcp|udp)/|base64\s+(?:-d|-D|--decode)[^\n;&]*\|\s*(?:ba|z|da|k)?sh\b"
    rb"|\bnc\s+(?:-\w+\s+)*-\w*e|\bbash\s+-i\s*>&"
)
"""A program fetched and run in one go, or a shell handed to the network."""
_GIT_COMMANDS = re.compile(
    rb"^\s*(fsmonitor|sshcommand|hookspath|clean|smudge|textconv|editor|pager|askpass|program)\s*=", re.I | re.M
)
SCRIPT_NAMES = ("makefile", "gnumakefile", "dockerfile", "containerfile", "justfile", "modelfile")


@dataclass(frozen=True, kw_only=True)
class Side:
    """What one file showed. `rule` is None for a warning."""

    rule: Literal["process", "dynamic-code", "requirements"] | None
    detail: str


def look(path: str, content: bytes, *, is_shell: bool) -> Iterator[Side]:
    """Everything that a file's name and plain text say without being parsed."""
    name = PurePosixPath(path).name.lower()
    if _REQUIREMENTS.fullmatch(name):
        yield from _of_requirements(content)
    if name.endswith(".pth") and b"\0" not in content and _PTH_IMPORT.search(content):
        yield Side(rule="dynamic-code", detail="a .pth file with an import line, which Python runs whenever it starts")
    if name in _STARTUP:
        yield Side(rule="dynamic-code", detail=f"{name} is run by every Python that finds it")
    if is_shell or _is_script(name):
        if match := _FETCH_AND_RUN.search(content):
            line = content.count(b"\n", 0, match.start()) + 1
            yield Side(rule="process", detail=f"line {line} fetches a program and runs it, or hands out a shell")
        else:
            yield Side(rule=None, detail="is for a shell or a build, and was not examined further")
    if (".git/config" in f"/{path}" or name == ".gitconfig") and (match := _GIT_COMMANDS.search(content)):
        yield Side(rule="process", detail=f"git runs what {match[1].decode().lower()} says")


def _is_script(name: str) -> bool:
    return name.startswith(SCRIPT_NAMES) or name.endswith((".sh", ".bash", ".zsh", ".bat", ".cmd", ".ps1", ".mk"))


def _of_requirements(content: bytes) -> Iterator[Side]:
    lines = content.decode("utf-8", "replace").splitlines()
    elsewhere = [
        (number, line) for number, line in enumerate(lines, start=1) if _ELSEWHERE.match(line.partition(" #")[0])
    ]
    for number, line in elsewhere[:MAX_LINES_TOLD]:
        shown = re.sub(r"://[^/@\s]*@", "://…@", line.strip())
        yield Side(rule="requirements", detail=f"line {number} installs from outside the package index: {shown[:80]!a}")
    if not elsewhere and any(line.strip() and not line.lstrip().startswith("#") for line in lines):
        yield Side(rule=None, detail="lists packages; nothing here installs them, and they were not examined")
