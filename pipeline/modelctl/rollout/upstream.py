"""Two people at once: what somebody else has pushed already is asked for before a decision is committed."""

from __future__ import annotations

from pathlib import Path

from modelctl.errors import InputError
from modelctl.git import Git

FETCH_TIMEOUT_S = 20.0


def require_current(git: Git, folder: Path) -> tuple[str, ...]:
    """Fetch the branch's upstream; what a person should know when that is not possible.

    Raises `InputError` when the upstream holds commits on `folder` that this branch lacks.
    """
    upstream = git.run("rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}", check=False).strip()
    if not upstream:
        return ()
    branch = git.run("symbolic-ref", "--short", "HEAD", check=False).strip()
    remote = git.run("config", f"branch.{branch}.remote", check=False).strip()
    notes: tuple[str, ...] = ()
    if remote != "." and not git.fetch(remote, timeout_s=FETCH_TIMEOUT_S):
        notes = (f"{remote} could not be asked for newer commits: what others decided meanwhile is not known",)
    newer = git.run("log", "--format=%h %an: %s", f"HEAD..{upstream}", "--", str(folder)).strip().splitlines()
    if newer:
        more = f" and {len(newer) - 1} more" if len(newer) > 1 else ""
        raise InputError(
            f"somebody else has decided here meanwhile: {newer[0]}{more}",
            remedy="git pull, look at modelctl status, then decide again",
        )
    return notes
