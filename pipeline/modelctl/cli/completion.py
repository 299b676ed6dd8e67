"""`modelctl completion SHELL`: the script by which a shell completes modelctl's commands, options and names."""

from __future__ import annotations

import os
import shlex
from typing import ClassVar

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

SHELLS = ("bash", "zsh", "fish")
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' response line kind word
    response=$(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_BREAKS="$COMP_WORDBREAKS" \
%(complete_var)s=bash_complete "$1" 2>/dev/null)
    COMPREPLY=()
    for line in $response; do
        kind=${line%%%%,*} word=${line#*,}
        case $kind in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$word") ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(ShellComplete):
    """bash breaks words at `@` and `:` too, so it hands over the line, and gets what stands after the last break."""

    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The whole words before the cursor, and the one that it stands at the end of."""
        return split(os.environ["COMP_LINE"])

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """click's, each without the part of it that bash takes for words of their own."""
        breaks = os.environ.get("COMP_BREAKS", "").replace(" ", "")
        cut = 1 + max((incomplete.rfind(mark) for mark in breaks), default=-1)
        found = super().get_completions(args, incomplete)
        return [CompletionItem(item.value[cut:], item.type, item.help) for item in found]

    def format_completion(self, item: CompletionItem[str]) -> str:
        """One line of the answer."""
        return f"{item.type},{item.value}"


def split(line: str) -> tuple[list[str], str]:
    """The words of a command line after the program's name, and the unfinished last one; an open quote is borne."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:  # a quote that is still open
        words.append(lexer.token)
    if not line or line[-1].isspace():
        words.append("")
    return words[1:-1], words[-1]


def script(shell: str) -> str:
    """The script of a shell."""
    from modelctl.cli.main import COMPLETE, cli

    kind = Bash if shell == "bash" else get_completion_class(shell)
    if kind is None:
        raise ValueError(shell)
    return kind(cli, {}, "modelctl", COMPLETE).source()


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script by which a shell completes commands, options, releases, environments, policies and checks.

    bash takes it from ~/.bashrc, zsh from ~/.zshrc after compinit, fish from its folder of completions.

    \b
    modelctl completion bash >> ~/.bashrc
    modelctl completion zsh >> ~/.zshrc
    modelctl completion fish > ~/.config/fish/completions/modelctl.fish
    """
    click.echo(script(shell), nl=False)
