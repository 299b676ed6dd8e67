"""The tags of a repository, read at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelctl.git import Git

_FORMAT = "%(refname:strip=2)%00%(objectname)%00%(*objectname)%00%(contents)%00"
_FIELDS = 4


@dataclass(frozen=True, kw_only=True)
class Tag:
    """One tag."""

    name: str
    object: str
    """The id of the tag object; of a lightweight tag the commit's."""
    commit: str
    """What it points at in the end."""
    text: str
    """Its message with its signature; of a lightweight tag the commit's."""


def read_tags(git: Git) -> Mapping[str, Tag]:
    """All tags by name. Raises `GitError`."""
    words = git.run("--no-replace-objects", "for-each-ref", f"--format={_FORMAT}", "refs/tags").split("\0")
    found = {}
    for start in range(0, len(words) - _FIELDS, _FIELDS):
        name, identity, peeled, text = words[start : start + _FIELDS]
        name = name.removeprefix("\n")
        found[name] = Tag(name=name, object=identity, commit=peeled or identity, text=text)
    return found
