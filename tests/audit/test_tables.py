from __future__ import annotations

import csv
import io

import pytest

from modelctl.audit.events import Event
from modelctl.audit.origins import Origin
from modelctl.audit.serving import Serving
from modelctl.audit.tables import (
    EVENT_COLUMNS,
    ORIGIN_COLUMNS,
    SERVING_COLUMNS,
    VIOLATION_COLUMNS,
    as_csv,
    harmless,
)
from modelctl.audit.violation import Violation


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "＝1"])
def test_no_cell_is_a_formula(cell: str) -> None:
    assert harmless(cell) == f"'{cell}"


def test_other_cells_are_as_they_are() -> None:
    assert [harmless(cell) for cell in ("a=b", "", None, ("a: passed", "b: failed"), 3)] == [
        "a=b", "", "", "a: passed; b: failed", "3",
    ]  # fmt: skip


def test_quotes_commas_and_lists_survive() -> None:
    text = as_csv(("a", "b"), [{"a": 'x,"y"', "b": ["1", "2"]}])
    assert list(csv.reader(io.StringIO(text))) == [["a", "b"], ['x,"y"', "1; 2"]]


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (EVENT_COLUMNS, Event),
        (SERVING_COLUMNS, Serving),
        (ORIGIN_COLUMNS, Origin),
        (VIOLATION_COLUMNS, Violation),
    ],
)
def test_every_field_has_a_column(columns: tuple[str, ...], kind: type) -> None:
    assert set(columns) == set(kind.__dataclass_fields__)  # type: ignore[attr-defined]
