"""Every hostile repository of the corpus is refused for what it is, and every benign one is admitted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.corpus import GROUPS, corpus
from tests.corpus.base import Input
from tests.corpus.judge import judge_group
from tests.support.clamd import real_clamd

BY_CONTENT = ("pickle calls", "pickle tricks", "archives")


@pytest.fixture(scope="module")
def clamd_address() -> Iterator[str]:
    with real_clamd() as (clamd, _):
        yield clamd.address


def wrong(item: Input, rules: set[str]) -> str | None:
    """What is wrong about the rules that were found of an input."""
    if not item.rules:
        return f"{item.id}: {item.what}: a false alarm, {sorted(rules)}" if rules else None
    if any(rule.startswith(item.rules) for rule in rules):
        return None
    return f"{item.id}: {item.what}: wanted {' or '.join(item.rules)}, found {sorted(rules) or 'nothing'}"


@pytest.mark.services
@pytest.mark.parametrize("group", GROUPS)
def test_the_hostile_are_refused_for_what_they_are_and_the_benign_admitted(
    tmp_path: Path, group: str, clamd_address: str
) -> None:
    items = {item.id: item for item in corpus() if item.group == group}
    for item in items.values():
        item.write(tmp_path / "all" / item.id)
    checks_of = {item.id: item.checks for item in items.values()}
    judged = judge_group(tmp_path / "all", checks_of, workspace=tmp_path, clamd=clamd_address)
    assert judged.keys() == items.keys()
    assert [words for key, item in items.items() if (words := wrong(item, judged[key].rules))] == []
    assert [said.undecided for said in judged.values() if said.undecided] == []


@pytest.mark.services
def test_what_is_found_by_content_is_found_under_any_name(tmp_path: Path, clamd_address: str) -> None:
    items = [item for item in corpus() if item.group in BY_CONTENT and item.verdict == "refuse"]
    for item in items:
        folder = tmp_path / "all" / item.id
        folder.mkdir(parents=True)
        for number, data in enumerate(item.files.values()):
            (folder / f"part{number}").write_bytes(data)
    (tmp_path / "all" / "config.json").write_text("{}")  # a folder without one is no model
    judged = judge_group(tmp_path / "all", {}, workspace=tmp_path, clamd=clamd_address)
    assert {item.id for item in items} - judged.keys() == set()


def test_the_corpus_is_large_and_says_where_each_comes_from() -> None:
    ids = [item.id for item in corpus()]
    assert len(ids) == len(set(ids))
    assert sum(item.verdict == "refuse" for item in corpus()) >= 80
    assert sum(item.verdict == "admit" for item in corpus()) >= 40
    assert all(item.what and item.report for item in corpus())
