"""What git keeps of a model card: bounded, printable, never more than text."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.documents import load_document
from modelctl.model.tree import scan_tree
from modelctl.registry.card import MAX_ITEMS, MAX_TEXT, Card, extract_card

README = """\
---
license: other
license_name: some-license
base_model:
- org/base
- org/base
language: [en, zh]
tags: [chat, 7b]
pipeline_tag: text-generation
library_name: transformers
widget:
- text: "{{ 7*7 }}"
---
```
# not the title
```

# The *title* #

text
"""


def extracted(tmp_path: Path, readme: bytes | None) -> Card:
    (tmp_path / "config.json").write_text("{}")
    if readme is not None:
        (tmp_path / "README.md").write_bytes(readme)
    return extract_card(scan_tree(tmp_path))


def test_what_it_says_is_kept_and_read_back(tmp_path: Path) -> None:
    card = extracted(tmp_path, README.encode())
    assert card == Card(
        title="The *title*",
        licenses=("other", "some-license"),
        base_models=("org/base",),
        languages=("en", "zh"),
        tags=("chat", "7b"),
        task="text-generation",
        library="transformers",
    )
    path = tmp_path / "card.yaml"
    path.write_text(card.to_yaml())
    assert load_document(path, Card) == card


@pytest.mark.parametrize("readme", [None, b"", b"no front matter", b"---\n---\n", b"--- \n"])
def test_a_card_that_says_nothing(tmp_path: Path, readme: bytes | None) -> None:
    card = extracted(tmp_path, readme)
    assert card == Card()
    assert card.to_yaml() == "apiVersion: modelctl.dev/v1\nkind: ModelCard\n"


@pytest.mark.parametrize(
    ("readme", "problem"),
    [
        (b"---\nlicense: &a [x]\ntags: *a\n---\n", "alias"),
        (b"---\nlicense: !!python/object/apply:os.system [id]\n---\n", "front matter"),
        (b"---\nlicense: mit\nlicense: apache-2.0\n---\n", "duplicate"),
        (b"---\n" + b"[" * 100 + b"\n---\n", "nested"),
        (b"---\n- a\n---\n", "wanted a mapping"),
        (b"---\nlicense: \xff\n---\n", "UTF-8"),
    ],
)
def test_a_hostile_card_is_a_problem_and_nothing_else(tmp_path: Path, readme: bytes, problem: str) -> None:
    card = extracted(tmp_path, readme)
    assert problem in str(card.problem)
    assert card.licenses == ()


def test_what_is_kept_is_bounded_and_printable(tmp_path: Path) -> None:
    tags = ", ".join(f"t{n}" for n in range(500))
    escape = "\x1b[31m".encode("unicode_escape").decode()
    readme = f'---\nlicense: "a{escape}b\\u202ec"\ntags: [{tags}, {{a: b}}]\nmodel_name: "{"x" * 5000}"\n---\n'
    card = extracted(tmp_path, readme.encode())
    assert card.licenses == ("a [31mb c",)
    assert len(card.tags) == MAX_ITEMS
    assert card.title is not None
    assert len(card.title) == MAX_TEXT
