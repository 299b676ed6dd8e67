"""Cells of a notebook become Python, and what leaves Python is told."""

from __future__ import annotations

import json

import pytest

from modelctl.scan.configs import parse
from modelctl.scan.notebooks import Cell, notebook_cells


def cells(*sources: object) -> list[Cell]:
    content = [{"cell_type": "code", "source": source} for source in sources]
    document = {"nbformat": 4, "cells": [{"cell_type": "markdown", "source": "text"}, *content]}
    return list(notebook_cells(parse(json.dumps(document).encode())))


def test_code_cells_are_numbered_and_joined() -> None:
    assert cells(["import os\n", "os.x"], "y") == [Cell(number=2, source="import os\nos.x"), Cell(number=3, source="y")]
    assert list(notebook_cells(parse(b'{"cells": []}'))) == []


def test_the_older_format_keeps_cells_in_worksheets() -> None:
    document = {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "input": "x"}]}]}
    assert [cell.source for cell in notebook_cells(parse(json.dumps(document).encode()))] == ["x"]


@pytest.mark.parametrize(
    "source",
    ["!ls", "x = !ls", "%pip install x", "%run x.py", "%%bash\nls", "%%python\nprint(1)", "%%writefile x.py\nx",
     "%%!\nls", "if x:\n    !ls", "if x: !ls", "a, b = %system ls"],
)  # fmt: skip
def test_programs_are_told(source: str) -> None:
    (cell,) = cells(source)
    assert len(cell.programs) == 1


@pytest.mark.parametrize(
    "source", ["%timeit f(1)", "%matplotlib inline", "x = %env HOME", "f?", "%%time\nf(1)", "a != b"]
)
def test_harmless_magics_are_left_alone(source: str) -> None:
    (cell,) = cells(source)
    assert cell.programs == ()
    compile(cell.source, "cell", "exec")
