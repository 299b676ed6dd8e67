from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from modelctl.tokenization.behaviour import compare, compare_vocabularies
from modelctl.tokenization.corpus import corpus
from modelctl.tokenization.report import Ledger
from modelctl.tokenization.round_trip import is_exact, round_trips
from modelctl.tokenization.variants import Variants, load
from modelctl.tokenization.vocabulary import Vocabulary, read_vocabulary
from tests.support.models import write_json, write_tokenizer
from tests.tokenization.models import edit_json, rules


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tokenizer(tmp_path, vocab=320)
    write_json(tmp_path / "config.json", {"model_type": "llama"})
    return tmp_path


def vocabulary_of(tokenizer: Tokenizer) -> Vocabulary:
    return read_vocabulary(json.loads(tokenizer.to_str()), None, None)


def tried(folder: Path, *, rows: int = 320) -> Ledger:
    ledger = Ledger()
    variants = load(folder, has_file=True, asks_for_code=False, ledger=ledger)
    vocabulary = read_vocabulary(json.loads((folder / "tokenizer.json").read_text()), None, None)
    if variants.encoders:
        compare_vocabularies(variants, rows=rows, ledger=ledger)
        compare(variants, rows=rows, ledger=ledger)
        round_trips(variants, vocabulary, max_lossy_texts=0, ledger=ledger)
    return ledger


def round_tripped(tokenizer: Tokenizer) -> Ledger:
    ledger = Ledger()
    variants = Variants(raw=tokenizer, loaded=None)
    round_trips(variants, vocabulary_of(tokenizer), max_lossy_texts=0, ledger=ledger)
    return ledger


@pytest.mark.slow
def test_a_good_tokenizer_agrees_and_is_exact(folder: Path) -> None:
    ledger = tried(folder)
    assert rules(ledger) == []
    figures = {figure.name: figure for figure in ledger.figures}
    assert figures["lossless-texts"].value == figures["lossless-texts"].parameters["of"] == ledger.texts
    assert figures["texts-with-unwritable-bytes"].value == 0


def test_a_class_that_reads_the_file_its_own_way_differs(folder: Path) -> None:
    edit_json(folder / "tokenizer_config.json", lambda it: it.update(tokenizer_class="Qwen2Tokenizer"))
    ledger = tried(folder)
    assert set(rules(ledger)) == {"variants-differ"}
    assert "tokenizers and transformers give different ids" in ledger.problems[0].message


def test_a_named_token_that_the_file_lacks_is_appended_past_the_embedding(folder: Path) -> None:
    edit_json(folder / "tokenizer_config.json", lambda it: it.update(eos_token="<|no such|>"))
    size = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    assert rules(tried(folder, rows=size)) == ["id-range"]
    ledger = tried(folder, rows=size + 1)
    assert rules(ledger) == []
    assert "'<|no such|>'" in ledger.warnings[0]


def test_an_id_that_a_text_is_given_past_the_embedding_is_found(folder: Path) -> None:
    ledger = tried(folder, rows=100)
    assert set(rules(ledger)) == {"id-range"}


def test_what_does_not_load_is_found(folder: Path) -> None:
    edit_json(folder / "tokenizer.json", lambda it: it["model"].update(type="No such model"))
    assert set(rules(tried(folder))) == {"load"}


def test_code_that_would_have_to_be_run_is_named(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    edit_json(folder / "tokenizer_config.json", lambda it: it.update(auto_map={"AutoTokenizer": ["x.Y", None]}))
    ledger = Ledger()
    load(folder, has_file=False, asks_for_code=True, ledger=ledger)
    assert rules(ledger) == ["load"]
    assert "auto_map" in ledger.problems[0].message


def test_a_decoder_that_does_not_fit_loses_text(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.decoder = decoders.Metaspace()
    ledger = round_tripped(tokenizer)
    assert rules(ledger) == ["round-trip"]
    assert "became" in ledger.problems[0].message


@pytest.mark.parametrize(
    "normalizer",
    [normalizers.NFC(), normalizers.NFKC(), normalizers.Sequence([normalizers.NFD(), normalizers.NFC()])],
    ids=["NFC", "NFKC", "a sequence"],
)
def test_a_unicode_form_is_no_loss(folder: Path, normalizer: normalizers.Normalizer) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.normalizer = normalizer
    assert rules(round_tripped(tokenizer)) == []


def test_a_space_in_front_is_no_loss(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    assert rules(round_tripped(tokenizer)) == []


def test_sentencepiece_with_byte_tokens_is_exact() -> None:
    vocab = {f"<0x{value:02X}>": value for value in range(256)} | {"▁": 256, "a": 257, "▁a": 258}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[("▁", "a")], byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    assert is_exact(vocabulary_of(tokenizer))
    assert rules(round_tripped(tokenizer)) == []


def test_lower_casing_is_measured_and_passes() -> None:
    letters = sorted({letter for texts in corpus().values() for text in texts for letter in text.lower()})
    vocab = {"[UNK]": 0} | {letter: number for number, letter in enumerate(letters, start=1)}
    vocab |= {f"##{letter}": len(vocab) + number for number, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.WordPiece(vocab=vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    ledger = round_tripped(tokenizer)
    assert rules(ledger) == []
    lossless = next(figure for figure in ledger.figures if figure.name == "lossless-texts")
    assert isinstance(lossless.value, int)
    assert lossless.value < 30


def test_a_vocabulary_in_which_nothing_survives_is_found() -> None:
    tokenizer = Tokenizer(models.WordLevel(vocab={"[UNK]": 0, "x": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    assert rules(round_tripped(tokenizer)) == ["round-trip"]


def test_missing_bytes_excuse_their_texts_and_no_others(folder: Path) -> None:
    edit_json(folder / "tokenizer.json", lambda it: it["model"]["vocab"].pop("Ą"))  # byte 0x04
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ledger = round_tripped(tokenizer)
    assert rules(ledger) == []
    excused = next(figure for figure in ledger.figures if figure.name == "texts-with-unwritable-bytes")
    assert excused.value == 1


def test_losses_may_be_only_measured(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.decoder = decoders.Metaspace()
    ledger = Ledger()
    round_trips(Variants(raw=tokenizer, loaded=None), vocabulary_of(tokenizer), max_lossy_texts=None, ledger=ledger)
    assert rules(ledger) == []


def test_the_corpus_puts_chinese_first_and_holds_what_breaks_tokenizers() -> None:
    groups = corpus()
    assert next(iter(groups)) == "chinese"
    everything = "".join(text for texts in groups.values() for text in texts)
    for wanted in ("𠮷", "\u202e", "\x00", "\u200d", "🏽", "\r\n", "\t", "１", "\U000e007f"):
        assert wanted in everything
    assert len(groups["long"][0]) > 20_000
