"""JSON and YAML become pairs within bounds, and templates are found in every shape that loaders accept."""

from __future__ import annotations

import json

import pytest

from modelctl.scan.configs import MAX_VALUES, may_hold_hooks, pairs, parse, parse_yaml, templates


def test_what_does_not_parse_may_hold_hooks() -> None:
    assert may_hold_hooks(b'{"\\u0061uto')
    assert may_hold_hooks(b'{"auto_map": {')
    assert not may_hold_hooks(b'{"\\u0120the": 1')


def test_templates_of_every_shape() -> None:
    document = parse(
        json.dumps(
            {
                "chat_template": [{"name": "default", "template": "A"}, {"name": "tool", "template": "B"}],
                "processor": {"chat_template": "C", "more": {"chat_template": {"x": "D"}}},
            }
        ).encode()
    )
    assert sorted(text for _, text in templates(document)) == ["A", "B", "C", "D"]


def test_yaml_becomes_pairs_without_building_anything() -> None:
    document = parse_yaml(b"a: !!python/name:os.system {b: [1, *x, true]}\n---\n- c\n")
    assert list(pairs(document)) == [("a", [("b", ["1", "*x", True])]), ("b", ["1", "*x", True])]
    with pytest.raises(ValueError, match="YAML"):
        parse_yaml(b"a: [")


@pytest.mark.parametrize("level", [b"[\n", b'["]",\n', b"- ", b"{a:\n"])
def test_yaml_is_read_to_a_depth_and_no_further(level: bytes) -> None:
    with pytest.raises(ValueError, match="deep"):
        parse_yaml(level * 3000)


def test_a_small_file_can_not_fill_the_memory() -> None:
    with pytest.raises(ValueError, match="values"):
        parse(b"[" + b"[]," * (MAX_VALUES // 2 + 1) + b"1]")


def test_nesting_that_is_too_deep_is_an_error() -> None:
    with pytest.raises(ValueError, match="deep"):
        parse(b"[" * 100_000)
