"""How help reads: examples under a heading of their own and foldable into a shell, any width from 30 columns on.

A command's docstring ends with its examples, a block after `\\b` whose lines begin with `modelctl`; a comment after
three spaces is set apart where a line has no room for it. `dress` gives a command and those below it these pages, so
that no command has to ask for them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import click

WIDEST = 100
NARROWEST = 30
ROOMY = 70
"""Columns from which options and their texts stand side by side at ease."""
_WORD = r"""(?:"[^"]*"|'[^']*'|[^\s"'])+"""
_UNIT = re.compile(rf"(?:--\S+\s+(?![-|]){_WORD}|\|\s+{_WORD}|{_WORD})")


class Manual(click.HelpFormatter):
    """click's formatter for any width, with a heading for the examples."""

    def __init__(self) -> None:
        super().__init__(width=max(min(shutil.get_terminal_size().columns, WIDEST) - 2, NARROWEST))

    def write_text(self, text: str) -> None:
        """Text as paragraphs; of the blocks after `\\b` those of commands are examples."""
        prose, examples = [], []
        for paragraph in re.split(r"\n\s*\n", text):
            lines = paragraph.strip("\n").splitlines()
            block = [line.strip() for line in lines[1:]] if lines and lines[0].strip() == "\b" else []
            if block and all(line.startswith("modelctl ") for line in block):
                examples += block
            else:
                prose.append(paragraph)
        super().write_text("\n\n".join(prose))
        if examples:
            self.dedent()
            with self.section("Examples"):
                for line in examples:
                    self._example(line)
            self.indent()

    def write_dl(self, rows: object, col_max: int = 30, col_spacing: int = 2) -> None:
        """A list of terms and texts; the terms get less room in a narrow terminal."""
        if self.width < ROOMY:
            col_max = max(self.width // 3, 10)
        super().write_dl(rows, col_max, col_spacing)  # type: ignore[arg-type]

    def _example(self, line: str) -> None:
        room = self.width - self.current_indent
        margin = " " * self.current_indent
        if len(line) <= room:
            self.write(f"{margin}{line}\n")
            return
        command, gap, comment = line.partition("   ")
        for part in folded(command, room):
            self.write(f"{margin}{part}\n")
        if gap:
            self.write(
                click.wrap_text(
                    f"# {comment.strip()}", self.width, initial_indent=margin + "  ", subsequent_indent=margin + "  # "
                )
                + "\n"
            )


class ManualContext(click.Context):
    """A context whose help is a `Manual`."""

    def make_formatter(self) -> click.HelpFormatter:
        """The formatter of this context's help."""
        return Manual()


def folded(command: str, width: int) -> Iterator[str]:
    """A command line over several, as a shell takes it: no word is broken, no option apart from a value that fits."""
    line = ""
    room = width - len("    ") - len(" \\")
    units = (part for unit in _UNIT.findall(command) for part in ([unit] if len(unit) <= room else _words(unit)))
    for word in units:
        if line and len(line) + 1 + len(word) > width - 2:
            yield f"{line} \\"
            line = f"    {word}"
        else:
            line = f"{line} {word}" if line else word
    yield line


def _words(text: str) -> list[str]:
    return re.findall(_WORD, text)


def dress(command: click.Command) -> None:
    """Give a command, and those below it, these pages; a group lists each by its whole first sentence."""
    command.context_class = ManualContext
    for inner in getattr(command, "commands", {}).values():
        inner.short_help = re.split(r"(?<=\.)\s", " ".join((inner.help or "").split()), maxsplit=1)[0]
        dress(inner)
