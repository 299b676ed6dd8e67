from __future__ import annotations

from modelctl.page.document import charts, document, section, table, text


def test_every_text_is_escaped() -> None:
    hostile = "<script>alert(1)</script>"
    page = document(hostile, [text(hostile), section(hostile, table([hostile], [[hostile]])), charts([(hostile, "")])])
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 6


def test_a_marked_row_stands_out() -> None:
    assert table(["a"], [["1"], ["2"]], marked=1).count("marked") == 1
