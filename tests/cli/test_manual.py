"""The help of every command: examples of its own, no line wider than the terminal, lines that a shell takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from modelctl.cli.main import COMMANDS, cli
from modelctl.cli.manual import folded


def every_command() -> Iterator[tuple[str, click.Command]]:
    """Each command and what stands before its arguments, groups included."""
    with click.Context(cli) as context:
        for name in COMMANDS:
            command = cli.get_command(context, name)
            assert command is not None
            yield name, command
            for inner_name, inner in getattr(command, "commands", {}).items():
                yield f"{name} {inner_name}", inner


ALL = dict(every_command())


def page(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    command = ALL[name]
    parent = click.Context(cli, info_name="modelctl")
    with command.context_class(command, info_name=name, parent=parent, help_option_names=["-h", "--help"]) as context:
        return command.get_help(context)


def examples(text: str) -> list[str]:
    """The command lines under `Examples`, continued lines joined."""
    found = re.search(r"^Examples:\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    lines = found[1].replace("\\\n", " ").splitlines() if found else []
    return [" ".join(line.split()) for line in lines if line.strip() and not line.strip().startswith("#")]


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("name", ALL)
def test_help_fits_the_terminal(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = [line for line in page(name, columns, monkeypatch).splitlines() if len(line) > columns]
    # What has no room is one word: a URL, a path, an option with its choices.
    assert not [line for line in wide if len(line.split()) > 2], wide


@pytest.mark.parametrize("name", [name for name, command in ALL.items() if not isinstance(command, click.Group)])
def test_every_command_shows_examples_that_are_its_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = examples(page(name, 80, monkeypatch))
    assert given
    options = {option for parameter in ALL[name].params for option in (*parameter.opts, *parameter.secondary_opts)}
    for line in given:
        assert line.startswith(f"modelctl {name}"), line
        first = shlex.split(line.partition(" | ")[0].partition(" > ")[0], comments=True)
        assert {word for word in first if word.startswith("--")} <= options, line
    assert examples(page(name, 40, monkeypatch)) == given, "folding loses nothing"


def test_a_group_lists_whole_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    words = " ".join(page("policy", 80, monkeypatch).split())
    assert "..." not in words.partition("Commands:")[2]
    assert "Read the policies, every waiver and the list of signers, and say everything that is wrong." in words


@pytest.mark.parametrize("width", [42, 60])
def test_folding_keeps_words_and_options_whole(width: int) -> None:
    line = """modelctl rollout qwen3-4b@1.2.0 --env prod --reason "better at French" --dry-run"""
    parts = list(folded(line, width))
    joined = " ".join(part.removesuffix("\\").strip() for part in parts)
    assert shlex.split(joined) == shlex.split(line)
    assert all(part.endswith(" \\") for part in parts[:-1])
    assert not [part for part in parts if part.removesuffix(" \\").endswith(("--env", "--reason"))]
