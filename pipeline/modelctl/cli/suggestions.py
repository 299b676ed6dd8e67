"""What a shell may offer for a word: releases, models, environments, policies and checks of this registry repository.

Names of folders and files are read and nothing is parsed, so that pressing Tab takes no longer than `modelctl --help`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from modelctl.checks import CHECK_IDS
from modelctl.files import find_root


def releases() -> list[str]:
    """`name@version` of every release file, the newest version of a name first."""
    return [f"{name}@{version}" for name in models() for version in sorted(_folders(name), key=_order, reverse=True)]


def models() -> list[str]:
    """The names that the registry has."""
    return sorted(_folders())


def environments() -> list[str]:
    """The environments that have a folder."""
    return sorted(path.parent.name for path in _root().glob("gitops/environments/*/environment.yaml"))


def policies() -> list[str]:
    """The policies of this repository and those that come with modelctl."""
    built_in = Path(__file__).resolve().parents[1] / "policies"
    return sorted({path.stem for folder in (_root() / "policies", built_in) for path in folder.glob("*.yaml")})


def channels() -> list[str]:
    """Releases, and how else one may be named: the newest, or what an environment serves."""
    served = [f"{role}:{environment}" for environment in environments() for role in ("stable", "canary")]
    return releases() + [f"{name}@{which}" for name in models() for which in ("latest", *served)]


def checks() -> list[str]:
    """The ids of the checks that come with modelctl."""
    return list(CHECK_IDS)


Source = Callable[[], list[str]]
BY_METAVAR: dict[str, tuple[Source, ...]] = {
    "NAME@VERSION": (releases,),
    "NAME[@VERSION]": (models, channels),
    "[NAME[@VERSION]]": (models, releases),
    "NAME@VERSION|FILE": (releases,),
    "DIR|NAME@VERSION": (channels,),
    "NAME|FILE": (policies,),
    "ENV": (environments,),
    "CHECK": (checks,),
}
BY_NAME: dict[str, tuple[Source, ...]] = {
    "repo": (releases,),
    "baseline": (releases,),
    "name": (models,),
    "a": (channels,),
    "b": (channels,),
}
"""Of arguments without a metavar of their own."""
PATHS = ("repo", "baseline", "against", "a", "b", "policy", "release", "what")
"""Parameters that a path may stand for as well."""


class Suggested(click.types.StringParamType):
    """Text of which a shell knows examples."""

    def __init__(self, sources: Iterable[Source], *, paths: bool) -> None:
        self.sources = tuple(sources)
        self.paths = paths

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        """The words that go on from what was typed; the shell's own files where it looks like a path."""
        if self.paths and re.match(r"[./~]|.*/", incomplete):
            return [CompletionItem(incomplete, type="file")]
        words = dict.fromkeys(word for source in self.sources for word in source() if word.startswith(incomplete))
        if self.paths and not words:
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(word) for word in words]


def suggest(command: click.Command, *, within: str = "") -> None:
    """Let the text parameters of a command, and of those below it, offer what there is."""
    for parameter in command.params:
        if type(parameter.type) is not click.types.StringParamType:
            continue
        if within == "policy" and parameter.name in ("name", "names"):
            sources: tuple[Source, ...] = (policies,)
        else:
            sources = BY_METAVAR.get(parameter.metavar or "") or BY_NAME.get(parameter.name or "", ())
        if command.name == "pull" and parameter.name == "release":
            sources = (channels,)
        if sources:
            parameter.type = Suggested(sources, paths=parameter.name in PATHS)
    for inner in getattr(command, "commands", {}).values():
        suggest(inner, within=command.name or "")


def _root() -> Path:
    return find_root(Path.cwd())


def _folders(*below: str) -> list[str]:
    try:
        with os.scandir(_root().joinpath("registry", *below)) as found:
            return [item.name for item in found if item.is_dir() and not item.name.startswith(".")]
    except OSError:
        return []


def _order(version: str) -> tuple[list[int], bool, str]:
    """Versions in their order, near enough for a list: numbers as numbers, a pre-release before its release."""
    plain, dash, rest = version.partition("-")
    return [int(part) for part in re.findall(r"\d+", plain)], not dash, rest
