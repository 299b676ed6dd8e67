"""How a person writes down where a model is: schemes, Hub ids and revisions, and what to say of a text that is none.

Nothing is asked of a network here, and of the disk only what lies beside a name that is not there.
"""

from __future__ import annotations

import re
from pathlib import Path

from modelctl.documents import nearest
from modelctl.errors import InputError

DEFAULT_REVISION = "main"
S3_SCHEME = "s3://"
HUB_SCHEME = "hub:"
_HUB_ID = re.compile(r"(?P<id>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[\w./-]+))?")


def reads_as_hub_id(text: str) -> bool:
    """Whether a text without a scheme is of the form `ORG/NAME[@REVISION]`; a folder's path may be too."""
    return _HUB_ID.fullmatch(text) is not None


def hub_name(text: str) -> tuple[str, str]:
    """Repository and revision of `[hub:]ORG/NAME[@REVISION]`. Raises `InputError`."""
    named = _HUB_ID.fullmatch(text.removeprefix(HUB_SCHEME))
    if named is None:
        what = "names no Hub repository" if text.startswith(HUB_SCHEME) else "is neither a folder here nor a Hub id"
        raise InputError(f"'{text}' {what}", remedy="wanted: a folder or [hub:]ORG/NAME[@COMMIT]")
    return named["id"], named["revision"] or DEFAULT_REVISION


def upstream_name(text: str) -> tuple[str, str]:
    """Repository and revision of what `--upstream` names, which has to say the revision. Raises `InputError`."""
    if "@" not in text or not reads_as_hub_id(text.removeprefix(HUB_SCHEME)):
        raise InputError(
            f"--upstream: found '{text}', wanted ORG/NAME@COMMIT", remedy="name the commit to compare with"
        )
    return hub_name(text)


def names_nothing(text: str, location: Path) -> InputError:
    """The error for a text that is no source; `location` is where the folder would be, had it been one."""
    return InputError(
        f"'{text}' is neither a folder on this disk nor a Hub id",
        remedy=_suggestion(location)
        or "wanted: a folder with config.json and weights, ORG/NAME[@COMMIT], "
        "s3://BUCKET/PREFIX, a DVC pointer (FILE.dvc), or NAME@VERSION of this registry",
    )


def _suggestion(location: Path) -> str | None:
    if not location.parent.is_dir():
        return None
    close = nearest(location.name, [item.name for item in location.parent.iterdir() if item.is_dir()])
    return f"did you mean {location.parent / close}?" if close else None
