"""How replicas of real families are made: vocabularies trained on our corpus, and the files around them."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from modelctl.tokenization.corpus import corpus
from tests.support.models import write_json, write_safetensors


def training_texts() -> list[str]:
    """What every vocabulary here is trained on."""
    left_out = ("long", "control", "lookalikes", "spaces")
    return [text for group, texts in corpus().items() if group not in left_out for text in texts]


@cache
def byte_level(split: str | None, *, digits: bool = False, nfc: bool = False) -> str:
    """A byte-level BPE tokenizer.json of 500 pieces; `split` is the regular expression before ByteLevel."""
    made = Tokenizer(models.BPE())
    if nfc:
        made.normalizer = normalizers.NFC()
    steps: list[Any] = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)]
    if split is not None:
        steps.insert(0, pre_tokenizers.Split(Regex(split), "isolated", invert=False))
    if digits:
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    made.pre_tokenizer = steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=500, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    made.train_from_iterator(training_texts(), trainer)
    return str(made.to_str())


@cache
def sentencepiece_model(kind: str, *, own: tuple[str, ...] = (), **options: Any) -> bytes:
    """A model that sentencepiece itself trained on our texts, as a serialized protobuf; `own`: user-defined pieces."""
    import sentencepiece

    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(training_texts()), model_writer=out, model_type=kind, hard_vocab_limit=False,
        character_coverage=0.98, minloglevel=2, num_threads=1, user_defined_symbols=list(own), **options,
    )  # fmt: skip
    return out.getvalue()


def llama_sentencepiece() -> bytes:
    """BPE with byte fallback and a space in front, as Llama 2, Mistral and Phi 3 have it."""
    return sentencepiece_model(
        "bpe", vocab_size=1100, byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, split_digits=True,
    )  # fmt: skip


def fast_of(proto: bytes, *, unk: str = "<unk>") -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Pieces and merges of a BPE model: every split into two pieces, best score first, as converters do it."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_proto=proto)
    scores = {model.id_to_piece(number): model.get_score(number) for number in range(model.vocab_size())}
    vocab = {piece: number for number, piece in enumerate(scores)}
    merges: list[tuple[str, str, float]] = []
    for piece, score in scores.items():
        halves = [(piece[:at], piece[at:]) for at in range(1, len(piece))]
        known = [(left, right, score) for left, right in halves if left in vocab and right in vocab]
        merges += sorted(known, key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
    merges.sort(key=lambda merge: merge[2], reverse=True)
    assert unk in vocab
    return vocab, [(left, right) for left, right, _ in merges]


def special(tokenizer: Tokenizer, tokens: Sequence[str], *, plain: Sequence[str] = ()) -> dict[str, dict[str, object]]:
    """Add tokens and return `added_tokens_decoder` for all of them."""
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in tokens])
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in plain])
    return {
        str(number): {
            "content": token.content, "lstrip": token.lstrip, "normalized": token.normalized,
            "rstrip": token.rstrip, "single_word": token.single_word, "special": token.special,
        }
        for number, token in sorted(tokenizer.get_added_tokens_decoder().items())
    }  # fmt: skip


def write_model(
    folder: Path,
    tokenizer: Tokenizer,
    *,
    config: Mapping[str, object],
    settings: Mapping[str, object],
    generation: Mapping[str, object] | None = None,
    table: str = "model.embed_tokens.weight",
    padding_rows: int = 0,
    **texts: str | bytes,
) -> Path:
    """Write the folder; `padding_rows` are rows of the embedding past the last token. `texts`: further files."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = max(tokenizer.get_vocab().values()) + 1 + padding_rows
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "config.json", {"vocab_size": rows, **config})
    write_json(folder / "tokenizer_config.json", settings)
    if generation is not None:
        write_json(folder / "generation_config.json", generation)
    write_safetensors(folder / "model.safetensors", {table: ("BF16", (rows, 1), bytes(2 * rows))})
    for name, content in texts.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def a_metaspace(*, legacy: bool) -> Tokenizer:
    """Llama 2's tokenizer.json: a normalizer that prepends (legacy), or the Metaspace pre-tokenizer of later ones."""
    vocab, merges = fast_of(llama_sentencepiece())
    made = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if legacy:
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return made


def unigram(proto: bytes, *, front: Sequence[tuple[str, float]] = (), skip: int = 0, unk: int) -> Tokenizer:
    """A Unigram tokenizer.json of a sentencepiece model; `front` replaces its first `skip` pieces."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece.SentencePieceProcessor(model_proto=proto)
    rows = [(model.id_to_piece(number), model.get_score(number)) for number in range(skip, model.vocab_size())]
    made = Tokenizer(models.Unigram([*front, *rows], unk_id=unk, byte_fallback=False))
    charsmap = sentencepiece_model_pb2.ModelProto.FromString(proto).normalizer_spec.precompiled_charsmap
    made = Tokenizer.from_str(
        json.dumps(
            json.loads(made.to_str())
            | {
                "normalizer": {
                    "type": "Precompiled",
                    "precompiled_charsmap": base64.b64encode(charsmap).decode(),
                }
            }
        )
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    made.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    return made
