"""Hooks are found in every object of a JSON file, and templates in every shape that loaders accept."""

from __future__ import annotations

import json

import pytest

from modelctl.scan.configs import hooks, may_hold_hooks, notebook_cells, parse, templates


def found(document: object, name: str = "config.json") -> list[tuple[str, str]]:
    return [(hook.rule, hook.detail) for hook in hooks(parse(json.dumps(document).encode()), file_name=name)]


def test_auto_map_says_what_it_loads_and_from_where() -> None:
    ((rule, detail),) = found({"auto_map": {"AutoModel": "other/repo--mod.Cls"}})
    assert rule == "auto-map"
    assert "other/repo--mod.Cls" in detail
    assert detail.endswith("from another repository")
    ((_, own),) = found({"text_config": [{"auto_map": {"AutoModel": "mod.Cls"}}]})
    assert own.endswith("from this repository")
    assert len(found({"auto_map": {"AutoTokenizer": ["a.B", None, "c--d.E"]}})) == 2


def test_the_first_of_two_equal_keys_counts_too() -> None:
    document = parse(b'{"auto_map": {"AutoModel": "a.B"}, "auto_map": {}}')
    assert len(list(hooks(document, file_name="config.json"))) == 1


def test_a_key_spelt_with_escapes_is_the_same_key() -> None:
    document = parse(b'{"\\u0061uto_map": "a.B"}')
    assert len(list(hooks(document, file_name="x.json"))) == 1
    assert may_hold_hooks(b'{"\\u0061uto')
    assert not may_hold_hooks(b'{"\\u0120the": 1')


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"custom_pipeline": "me/mine"}, "model_index.json"),
        ({"_class_name": ["pipeline", "Mine"]}, "model_index.json"),
        ({"unet": ["my_unet", "Net"]}, "model_index.json"),
        ({"_target_": "os.system"}, "config.json"),
        ([{"type": "custom_st.Transformer"}], "modules.json"),
        ({"auto_mapping": {"parent_library": "mine.py"}}, "adapter_config.json"),
    ],
)
def test_other_hooks(document: object, name: str) -> None:
    assert [rule for rule, _ in found(document, name)] == ["custom-pipeline"]


def test_plain_files_have_no_hooks() -> None:
    assert (
        found({"unet": ["diffusers", "UNet"], "scheduler": [None, None], "_class_name": "P"}, "model_index.json") == []
    )
    assert found([{"type": "sentence_transformers.models.Pooling"}], "modules.json") == []
    assert found({"trust_remote_code": False, "architectures": ["LlamaForCausalLM"]}) == []
    assert found({"trust_remote_code": True})[0][0] == "trust-remote-code"


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


def test_notebook_cells_are_numbered_and_joined() -> None:
    cells = [
        {"cell_type": "markdown", "source": "text"},
        {"cell_type": "code", "source": ["import os\n", "os.x"]},
        {"cell_type": "code", "source": "y"},
    ]
    notebook = parse(json.dumps({"nbformat": 4, "cells": cells}).encode())
    assert list(notebook_cells(notebook)) == [(2, "import os\nos.x"), (3, "y")]
    assert list(notebook_cells(parse(b'{"cells": []}'))) == []


def test_nesting_that_is_too_deep_is_an_error() -> None:
    with pytest.raises(ValueError, match="deep"):
        parse(b"[" * 100_000)
