"""Manifests are read as a cluster reads them, and refused where it would not say a word."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from modelctl.errors import InputError
from modelctl.rollout.lint.reading import documents

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(PLAIN)
def test_what_was_written_is_read(value: object) -> None:
    text = yaml.safe_dump(value)
    assert [body for _, body in documents(text, origin="x")] == [yaml.safe_load(text)]


def test_each_document_has_its_line() -> None:
    text = "# words\na: 1\n---\n\nb: 2\n"
    assert list(documents(text, origin="x")) == [(2, {"a": 1}), (5, {"b": 2})]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", "x.yaml:3: the key 'a' stands twice"),
        ("a: &b {c: 1}\nd: *b\n", "an alias"),
        ("a: [" + "[" * 70 + "]" * 70 + "]", "nested more than 64"),
        ("? [a]\n: b\n", "a key that is no word"),
        ("a: [1\n", "x.yaml:2"),
        ("a: !python/object:os.system {}\n", "x.yaml"),
        ("a: \x00", "not YAML"),
    ],
)
def test_what_hides_or_occupies_is_an_error_with_its_line(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        list(documents(text, origin="x.yaml"))
    assert words in caught.value.message


def test_a_word_that_its_tag_does_not_fit_is_an_error() -> None:
    with pytest.raises(InputError, match="not YAML"):
        list(documents("a: !!bool maybe\n", origin="x.yaml"))


@pytest.mark.parametrize("text", ["012", "0o14", "0x1f", "1_000", "-7", "+7", "190:20", "0", "00", "٣", "!!int 9"])
def test_numbers_are_those_of_yaml_1_1(text: str) -> None:
    assert list(documents(f"a: {text}\n", origin="x")) == [(1, yaml.safe_load(f"a: {text}\n"))]
