"""The code cells of a Jupyter notebook as Python: lines that only a notebook understands become `pass`, and those that
run a program are told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from modelctl.scan.configs import Pairs, pairs

_PROGRAM_CELL = re.compile(
    r"\s*%%(!|bash|sh|script|system|sx|cmd|perl|ruby|javascript|js|html|svg|python[23]?|pypy|cython|writefile|file)(?!\w)"
)
"""Magics whose cell is another program's, or becomes a file."""
_PROGRAM_LINE = re.compile(r"\s*(\w[\w, ]*=\s*)?(!|%(system|sx|sc|pip|conda|mamba|uv|run|load|edit|bookmark|alias)\b)")
_MAGIC_LINE = re.compile(r"(\s*)(?:(\w[\w, ]*=\s*)%|%|\?|[\w.]+\?\??\s*$)")
_LATER_SHELL = re.compile(r"^\s*(?:if|for|while|with|else|elif|try|except|finally)\b.*:\s*!")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One code cell: `number` counts all cells from 1, `programs` say which lines leave Python."""

    number: int
    source: str
    programs: tuple[str, ...] = ()


def notebook_cells(document: object) -> Iterator[Cell]:
    """The code cells when a parsed document is a notebook of format 4 or 3."""
    if not isinstance(document, Pairs) or not any(key == "nbformat" for key, _ in document):
        return
    number = 0
    for key, value in pairs(document):
        if key != "cells" or not isinstance(value, list):
            continue
        for cell in value:
            number += 1
            if isinstance(cell, Pairs) and ("cell_type", "code") in cell:
                for name, source in cell:
                    if name in ("source", "input"):
                        text = "".join(map(str, source)) if isinstance(source, list) else str(source)
                        yield _cell(number, text)


def _cell(number: int, source: str) -> Cell:
    if match := _PROGRAM_CELL.match(source):
        return Cell(number=number, source="", programs=(f"cell {number} is a cell of %%{match[1]}",))
    lines, programs = [], []
    for position, line in enumerate(source.splitlines(), start=1):
        if _PROGRAM_LINE.match(line) or _LATER_SHELL.match(line):
            programs.append(f"cell {number} line {position} runs a program ({line.strip()[:40]!a})")
        magic = _MAGIC_LINE.match(line) or _PROGRAM_LINE.match(line) or _LATER_SHELL.match(line)
        lines.append(line[: len(line) - len(line.lstrip())] + "pass" if magic else line)
    return Cell(number=number, source="\n".join(lines), programs=tuple(programs))
