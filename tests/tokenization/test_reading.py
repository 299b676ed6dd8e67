from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelctl.model.strict_json import Json
from modelctl.tokenization.consistency import check_bytes, check_clashes, check_range
from modelctl.tokenization.copies import check_copies
from modelctl.tokenization.reading import MalformedError, json_object, shown_plain, text
from modelctl.tokenization.report import Ledger, shown
from modelctl.tokenization.special import ROLES, check_agreement, check_ids, check_known, read_special_tokens
from modelctl.tokenization.templates import check_places, find_templates
from modelctl.tokenization.vocabulary import read_vocabulary

KEYS = (
    "model", "vocab", "merges", "type", "added_tokens", "id", "content", "special", "normalizer", "normalizers",
    "pre_tokenizer", "pretokenizers", "decoder", "decoders", "truncation", "max_length", "byte_fallback",
    "added_tokens_decoder", "0", "eos_token", "eos_token_id", "pad_token_id", "additional_special_tokens",
    "chat_template", "name", "template",
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-2, max_value=1 << 70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["ByteLevel", "BPE", "Sequence", "default", "</s>", "\x1b[2J", "{{ x", "NFC"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=24,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8)


def shaped(inner: st.SearchStrategy[dict[str, Json]]) -> st.SearchStrategy[dict[str, Json]]:
    """tokenizer.json with a model in the right place, so that the reader gets past its first look."""
    return st.fixed_dictionaries({"model": inner, "added_tokens": st.lists(inner, max_size=3)}) | inner


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(tokenizer=shaped(OBJECTS), config=OBJECTS, added=OBJECTS, model=OBJECTS, rows=st.none() | st.integers(0, 9))
def test_nonsense_in_any_file_is_malformed_or_judged_and_never_a_crash(
    tokenizer: dict[str, Json],
    config: dict[str, Json],
    added: dict[str, Json],
    model: dict[str, Json],
    rows: int | None,
) -> None:
    ledger = Ledger()
    try:
        vocabulary = read_vocabulary(tokenizer, config, added)
        special = read_special_tokens(config, added, {"config.json": model, "generation_config.json": config})
        check_copies(vocabulary, added, "a b\n", tokenizer, ledger)
    except MalformedError:
        return
    check_clashes(vocabulary, ledger)
    check_range(vocabulary, rows, "nowhere", ledger)
    check_bytes(vocabulary, ledger)
    check_known(special, vocabulary, ledger)
    check_ids(special, vocabulary, rows, ledger)
    check_agreement(special, vocabulary, ROLES, ledger)
    words = ledger.report().model_dump_json()
    assert "\\u001b" not in words


@settings(max_examples=40, deadline=None, derandomize=True)
@given(config=st.fixed_dictionaries({"chat_template": VALUES}))
def test_nonsense_for_a_template_is_found_and_never_a_crash(config: dict[str, Json]) -> None:
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        ledger = Ledger()
        templates = find_templates(Path(made), ["tokenizer_config.json"], ledger)
        check_places(templates, ledger)
    assert templates or ledger.problems or not config["chat_template"]


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True)
@given(content=st.binary(max_size=200) | st.text(alphabet='{}[]":,\\u0dtrue1e', max_size=80).map(str.encode))
def test_any_bytes_are_an_object_or_malformed(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "x.json").write_bytes(content)
        words = ""
        try:
            assert isinstance(json_object(Path(made), "x.json"), dict)
        except MalformedError as error:
            words = str(error)
        assert words.isprintable()


def test_a_missing_or_large_text_is_malformed(tmp_path: Path) -> None:
    with pytest.raises(MalformedError, match="cannot be read"):
        text(tmp_path / "none.jinja")
    (tmp_path / "a.jinja").write_text("12345")
    with pytest.raises(MalformedError, match="larger"):
        text(tmp_path / "a.jinja", max_bytes=4)
    assert text(tmp_path / "a.jinja", max_bytes=5) == "12345"


def test_what_is_shown_is_short_and_printable() -> None:
    for words in (shown("\x1b[2J" + "长" * 1000), shown_plain("\x1b[2J\u202e" + "x" * 10_000)):
        assert words.isprintable()
        assert len(words) <= 400
