"""Semantic versions in the order of their precedence, and the tag that names one in git."""

from __future__ import annotations

import re


def version_order(version: str) -> tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]:
    """A sort key that orders semantic versions by precedence (semver.org 2.0.0, section 11)."""
    core, _, pre = version.partition("-")
    identifiers = tuple(
        (not part.isdigit(), int(part) if part.isdigit() else 0, "" if part.isdigit() else part)
        for part in re.split(r"\.", pre)
        if part
    )
    return tuple(int(part) for part in core.split(".")), not pre, identifiers


def tag_name(name: str, version: str) -> str:
    """The release's tag in git."""
    return f"{name}@v{version}"
