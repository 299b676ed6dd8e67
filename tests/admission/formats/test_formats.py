"""Markdown, JUnit and HTML: nothing of a hostile model gets out of its place, nothing is lost without a word."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from modelctl.admission.formats import FORMATS, render
from modelctl.admission.formats.markdown import MAX_CHARACTERS
from modelctl.admission.report import Report
from tests.admission.formats.reports import full_report, large_report
from tests.support.reports import a_report

GITHUB_LIMIT = 65_536


class Tags(HTMLParser):
    """Every tag of a text, and whether what is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.loads: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.loads += [str(value) for name, value in attrs if name in ("src", "href") and value]
        if tag not in ("br", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_markdown_folds_findings_and_lets_nothing_out() -> None:
    text = render(full_report(), "markdown")
    assert text.splitlines()[0] == "<!-- modelctl tiny&#64;1.0.0 -->"
    tags = Tags(text)
    assert set(tags.seen) == {"code", "details", "summary", "br"}
    assert tags.open == []
    for mark in ("<script", "@everyone", "](", "```", "\x1b", "\x00"):
        assert mark not in text
    assert text.count("<details>") == text.count("</details>") == 5
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 7
    assert all(line.count("|") == 6 for line in rows)
    for words in ("❌ refused", "✗ failed, 1 waived", "? error", "code: 2 findings", "1 waived", "(optional)"):
        assert words.replace(":", "&#58;") in text or words in text, words


def test_markdown_stays_under_the_limit_and_says_what_it_leaves_out() -> None:
    text = render(large_report(), "markdown")
    assert MAX_CHARACTERS // 2 < len(text) < GITHUB_LIMIT
    shown = len(re.findall(r"^- \*\*<code>", text, re.MULTILINE))
    left = re.search(r"- and (\d+) more: report\.json has them all", text)
    assert left is not None
    assert shown + int(left[1]) == 10_000
    assert "could not decide" in text
    assert Tags(text).open == []


@pytest.mark.parametrize("report", [full_report(), large_report(3000)])
def test_markdown_says_first_what_refuses(report: Report) -> None:
    """However long the parts are: findings, what is undecided, waivers, remarks."""
    text = render(report, "markdown")
    titles = re.findall(r"<summary>(.*?)</summary>", text)
    kinds = [next(kind for kind in ("finding", "could not decide", "waived", "remark") if kind in t) for t in titles]
    order = ["finding", "could not decide", "waived", "remark"]
    assert kinds == sorted(kinds, key=order.index)
    assert kinds[0] == "finding"


def test_junit_counts_what_fails_and_what_could_not_be_decided() -> None:
    top = ElementTree.fromstring(render(full_report(), "junit"))
    assert {key: top.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "9", "failures": "2", "errors": "1", "skipped": "3",
    }  # fmt: skip
    code = next(suite for suite in top if suite.get("name") == "code")
    failure = code.find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "code.risky-call"
    assert "next: take it out" in str(failure.text)
    assert "\\x1b" in str(failure.text)


def test_the_page_is_self_contained_and_lets_nothing_out() -> None:
    text = render(full_report(), "html")
    tags = Tags(text)
    assert "script" not in tags.seen
    assert tags.loads == []
    assert tags.open == []
    for words in ("Refused", "code.risky-call", "clamd is gone", "policies/waivers/one.yaml", "law", "ab" * 32):
        assert words in text
    assert tags.seen.count("svg") == 3
    for words in ("Throughput", "Time to first token by length", "knee 2 streams", "modelctl size tiny@1.0.0"):
        assert words in text


def test_an_admitted_release_in_every_format() -> None:
    for kind in FORMATS:
        assert "admitted" in render(a_report(), kind).lower() or kind == "junit"


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_ten_times_the_findings_take_ten_times_as_long_and_not_a_hundred(kind: str) -> None:
    """Seconds are `bench/measure.py --only reports`'s business: here other work may have the processor."""

    def took(findings: int) -> float:
        report = large_report(findings)
        began = time.process_time()
        render(report, kind)
        return time.process_time() - began

    took(100)  # imports
    assert min(took(10_000) for _ in range(2)) < 35 * max(min(took(1_000) for _ in range(3)), 0.005)
