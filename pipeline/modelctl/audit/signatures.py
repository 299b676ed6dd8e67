"""git's own signatures, by git and ssh-keygen, against the list of signers of the day.

Only SSH signatures count whose key the list allows for git: what an OpenPGP key says depends on the reader's keyring.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from modelctl.audit.tags import Tag
from modelctl.git import Git

_SSH_KEY = "SHA256:"
_SSH_SIGNATURE = "-----BEGIN SSH SIGNATURE-----"


def unsigned_commits(git: Git, commits: Iterable[str], signers: str | None) -> Mapping[str, str]:
    """Why the signature of each commit does not count, for those whose does not. Raises `GitError`."""
    wanted = list(dict.fromkeys(commits))
    if not wanted:
        return {}
    with _checking(signers) as options:
        output = git.run(
            *("--no-replace-objects", *options, "-c", "log.showSignature=false", "log", "--no-walk=unsorted", "-z"),
            *("--format=%H%x00%G?%x00%GF%x00%GS", "--stdin"),
            stdin="\n".join(wanted),
        )
    words = output.split("\0")
    found = {}
    for start in range(0, len(words) - 3, 4):
        commit, status, key, _ = words[start : start + 4]
        if status != "G" or not key.startswith(_SSH_KEY):
            found[commit] = _why(status, key)
    return found


def unsigned_tag(git: Git, tag: Tag, signers: str | None) -> str | None:
    """Why a tag's signature does not count; None when it does."""
    if _SSH_SIGNATURE not in tag.text:
        return "it has no SSH signature"
    with _checking(signers) as options:
        good = git.run(
            "--no-replace-objects", *options, "verify-tag", "--format=%(objectname)", tag.object, check=False
        )
    return None if good.strip() == tag.object else "no key that was allowed then has signed it"


@contextmanager
def _checking(signers: str | None) -> Iterator[Sequence[str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "allowed_signers")
        path.write_text(signers or "", encoding="utf-8")
        yield (
            "-c",
            f"gpg.ssh.allowedSignersFile={path}",
            "-c",
            "gpg.minTrustLevel=fully",
            "-c",
            "gpg.ssh.revocationFile=",
        )


def _why(status: str, key: str) -> str:
    match status:
        case "N":
            return "it has no signature"
        case "B":
            return "its signature is not of these bytes"
        case "G" | "U" if key.startswith(_SSH_KEY):
            return f"the key {key} was not allowed then"
        case _:
            return "no SSH key that was allowed then has signed it"
