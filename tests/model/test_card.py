"""The licence that a model card names."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.errors import InputError
from modelctl.model.card import licenses_of
from modelctl.model.tree import scan_tree


@pytest.mark.parametrize(
    ("card", "names"),
    [
        (None, ()),
        ("# A model\n", ()),
        ("---\ntags: [x]\n---\n# A model\n", ()),
        ("---\nlicense: Apache-2.0\n---\n", ("apache-2.0",)),
        ("\ufeff---\r\nlicense: mit\r\n---\r\n", ("mit",)),
        ("---\nlicense: [mit, apache-2.0]\n---\n", ("mit", "apache-2.0")),
        ("---\nlicense: other\nlicense_name: Llama3\n---\n", ("llama3",)),
        ("---\nlicense: other\n---\n", ("other",)),
        ("---\n---\n", ()),
        ("text\n---\nlicense: mit\n---\n", ()),
    ],
)
def test_names(tmp_path: Path, card: str | None, names: tuple[str, ...]) -> None:
    (tmp_path / "config.json").write_text("{}")
    if card is not None:
        (tmp_path / "README.md").write_bytes(card.encode())
    assert licenses_of(scan_tree(tmp_path)) == names


@pytest.mark.parametrize(
    "matter", ["license: {a: b}", "license: [1]", "- mit", "a: &x 1\nlicense: *x", "license: 'mit"]
)
def test_a_card_that_cannot_be_understood(tmp_path: Path, matter: str) -> None:
    (tmp_path / "README.md").write_text(f"---\n{matter}\n---\n")
    with pytest.raises(InputError, match=r"README\.md"):
        licenses_of(scan_tree(tmp_path))
