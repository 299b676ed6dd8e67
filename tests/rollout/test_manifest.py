from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from modelctl.documents import parse_yaml
from modelctl.errors import InputError
from modelctl.rollout.manifest import dump, resource_name
from tests.support.rollouts import a_release


def test_a_plain_name_is_kept() -> None:
    assert resource_name("smollm2-135m-instruct") == "smollm2-135m-instruct"


@pytest.mark.parametrize("name", ["qwen2.5-7b", "4bit-model", "a" * 63, "a" * 57, "0"])
def test_every_name_becomes_one_that_a_service_may_carry_with_its_suffix(name: str) -> None:
    found = resource_name(name)
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", found)
    assert len(f"{found}-canary") <= 63


def test_two_models_never_share_a_name() -> None:
    names = ["qwen2.5-7b", "qwen2-5-7b", "qwen2-5.7b", "a" * 62, "a" * 61 + "b"]
    assert len({resource_name(name) for name in names}) == len(names)


def test_what_a_yaml_1_1_reader_would_take_for_something_else_stays_a_string() -> None:
    words = ["yes", "off", "1.10", "0x1f", "10:30", "2026-01-31", "null", "~", "", "1e3", "=", "+1", ".5", "True"]
    text = dump([{"words": words}])
    assert yaml.safe_load(text) == {"words": words}
    assert parse_yaml(text, origin="it") == {"words": words}


def test_equal_parts_are_written_out_and_long_lines_stay_whole() -> None:
    part = {"a": "word " * 60 + "end"}
    text = dump([{"one": part, "two": part}])
    assert "&" not in text
    assert "*" not in text
    assert len(text.splitlines()) == 4


def test_a_query_is_written_as_a_block() -> None:
    assert dump([{"query": "a\n/ b"}]) == "query: |-\n  a\n  / b\n"


@pytest.mark.parametrize("text", ["a\n\n  b\n", "a\n\nb", "a\nb\n\n", "\na\nb", " a\nb", "a \nb", "a\n b \n", "a\n"])
def test_a_file_in_a_file_is_read_back_whole(text: str) -> None:
    assert yaml.safe_load(dump([{"data": {"file": text}}])) == {"data": {"file": text}}


def test_a_file_in_a_file_stays_readable() -> None:
    assert dump([{"file": "a\n\n  b\n"}]) == "file: |\n  a\n\n    b\n"


def test_a_release_without_a_real_digest_is_refused() -> None:
    with pytest.raises(InputError, match="no tree digest"):
        a_release(digest="sha256:short")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.text(max_size=20)
    | st.from_regex(r"\A[ -~\n]{0,20}\Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(min_size=1, max_size=8), VALUES, min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_whatever_is_written_is_read_back_by_readers_of_both_kinds(document: dict[str, object]) -> None:
    text = dump([document])
    assert yaml.load(text, yaml.CSafeLoader) == document
    assert parse_yaml(text, origin="it") == document
