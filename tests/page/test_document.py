from __future__ import annotations

from modelctl.page.document import Code, Html, charts, document, folded, section, share_bar, table, text


def test_every_text_is_escaped() -> None:
    hostile = "<script>alert(1)</script>"
    page = document(hostile, [text(hostile), section(hostile, table([hostile], [[hostile]])), charts([(hostile, "")])])
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 6


def test_a_row_of_words_names_its_columns_for_narrow_screens() -> None:
    page = table(['a"b', "c"], [["1", Code("<2>")], [Html("<b>3</b>"), ""]], words=True)
    assert '<td data-head="a&quot;b">1</td><td class="code" data-head="c">&lt;2&gt;</td>' in page
    assert "<b>3</b>" in page
    assert "data-head" not in table(["a"], [["1"]])


def test_a_bar_stays_within_its_place_and_a_fold_is_escaped() -> None:
    assert [share_bar(share).count("width:100%") for share in (1, 7, 0.5)] == [1, 1, 0]
    assert folded("<x>", "<p>y</p>").startswith('<details><summary class="quiet">&lt;x&gt;</summary><p>')


def test_a_marked_row_stands_out() -> None:
    assert table(["a"], [["1"], ["2"]], marked=1).count("marked") == 1
