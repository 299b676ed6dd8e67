"""Which modelctl a team's workflows install: one pinned source, named by a person or told from this installation.

What decides on models must not change by itself, so a branch, a tag or a version range is refused.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from modelctl.documents import read_text
from modelctl.errors import InputError, ModelctlError
from modelctl.git import Git

_VERSION = re.compile(r"modelctl\s*==\s*(?P<version>[0-9][0-9A-Za-z.!+-]*)")
_COMMIT = re.compile(r"git\+(https|ssh)://\S+@[0-9a-f]{40}")
_FILE = re.compile(r"https://\S+\.(whl|tar\.gz)#sha256=[0-9a-f]{64}")
_SCP = re.compile(r"(?:\w+@)?(?P<host>[\w.-]+):(?P<path>[^/\s].*)")
WANTED = "modelctl==VERSION, git+https://HOST/ORG/modelctl@COMMIT (40 hex digits), or https://…/FILE.whl#sha256=…"


def parse_program(text: str) -> str:
    """What follows `modelctl[extras]` in a requirement of pip: `== 1.2.3` or `@ URL`.

    Raises `InputError` for what can move, and for a password, which would be in git.
    """
    version = _VERSION.fullmatch(text)
    if version:
        return f"== {version['version']}"
    address = text.removeprefix("modelctl").lstrip().removeprefix("@").strip()
    parts = urlsplit(address.removeprefix("git+"))
    if parts.password or (parts.username and parts.scheme != "ssh"):
        raise InputError(
            f"--modelctl-source: {parts.scheme}://…@{parts.hostname} holds a password or a token: it would be in git",
            remedy="leave it out, and give the runners access by their own git configuration",
        )
    if _COMMIT.fullmatch(address) or _FILE.fullmatch(address):
        return f"@ {address}"
    raise InputError(f"--modelctl-source: found '{text}', wanted what can't move", remedy=WANTED)


def own_program() -> str | None:
    """The pinned source that this modelctl was installed from, as `parse_program` gives it; None when it can't be told.

    A version from an index, a commit or a file is what pip recorded (PEP 610); of a checkout it is the commit, when
    its remote has it and nothing is changed.
    """
    try:
        distribution = importlib.metadata.distribution("modelctl")
        recorded = distribution.read_text("direct_url.json")
        if recorded is None:
            return parse_program(f"modelctl=={distribution.version}")
        return _recorded(json.loads(recorded))
    except (importlib.metadata.PackageNotFoundError, ModelctlError, ValueError, TypeError, KeyError):
        return None


def _recorded(record: Mapping[str, object]) -> str | None:
    url = str(record["url"])
    if isinstance(vcs := record.get("vcs_info"), dict):
        return parse_program(f"git+{url}@{vcs['commit_id']}")
    if url.startswith("file://"):
        return program_of_checkout(Path(urlsplit(url).path)) if "dir_info" in record else None
    if isinstance(archive := record.get("archive_info"), dict):
        return parse_program(f"{url}#sha256={archive['hashes']['sha256']}")
    return None


def program_of_checkout(folder: Path) -> str | None:
    """The commit of a checkout at its remote `origin`; None where the remote has not got it. Raises `GitError`."""
    git = Git.containing(folder)
    if 'name = "modelctl"' not in read_text(git.root / "pyproject.toml"):
        return None
    address = web_address(git.run("remote", "get-url", "origin", check=False).strip())
    commit = git.head()
    pushed = commit and git.run("branch", "--remotes", "--contains", commit, check=False).strip()
    changed = git.run("status", "--porcelain", "--untracked-files=no").strip()
    return parse_program(f"git+{address}@{commit}") if address and pushed and not changed else None


def web_address(remote: str) -> str | None:
    """The https address of a git remote (`git@host:org/repo.git`); None for a folder here, or one with a password."""
    scp = _SCP.fullmatch(remote)
    if "://" not in remote:
        return f"https://{scp['host']}/{scp['path']}" if scp else None
    parts = urlsplit(remote)
    if parts.scheme not in ("https", "http", "ssh") or not parts.hostname or parts.password:
        return None
    port = f":{parts.port}" if parts.port and parts.scheme != "ssh" else ""
    return f"https://{parts.hostname}{port}{parts.path}"
