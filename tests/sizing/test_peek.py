"""A folder and a repository of the Hub are looked at in the same way, and a Hub's revision is pinned."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.documents import MAX_DOCUMENT_BYTES
from modelctl.errors import InputError
from modelctl.sizing.peek import FolderPeek, HubPeek, peek
from tests.support.hub import LocalHub
from tests.support.models import tiny_llama

CARD = b"---\nlicense: mit\n---\n"


def test_a_folder_says_the_same_as_its_repository_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny_llama(tmp_path / "m")
    (folder / "README.md").write_bytes(CARD)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    here = peek("m", tmp_path)
    assert isinstance(here, FolderPeek)
    with LocalHub() as hub:
        commit = hub.push("org/m", {path.name: path.read_bytes() for path in folder.iterdir()})
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        there = peek("org/m", tmp_path)
        assert isinstance(there, HubPeek)
        assert there.upstream.commit == commit
        assert (there.card(), there.config()) == (here.card(), here.config()) == (CARD, here.facts().config)
        assert there.facts().weight_bytes > here.facts().weight_bytes  # the listed sizes have the headers too
        assert not [line for line in hub.requests if ".safetensors" in line and "/resolve/" in line]


def test_no_card_is_an_empty_one_and_a_long_one_is_cut(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    model = peek("m", tmp_path)
    assert model.card() == b""
    (tmp_path / "m" / "README.md").write_bytes(b"x" * (MAX_DOCUMENT_BYTES + 9))
    assert len(model.card()) == MAX_DOCUMENT_BYTES


def test_a_folder_without_a_config_says_what_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with pytest.raises(InputError, match=r"m: no config\.json") as caught:
        peek("m", tmp_path).config()
    assert caught.value.remedy
