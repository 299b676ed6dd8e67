"""`config.json` as typed facts: what the model is and the shape of its attention.

Keys differ between families, so each fact has a list of names; models with several parts keep the language model's
facts in `text_config` (or `language_config`). A stated value of the wrong type is an `InputError`, never a silent
default: the engine would read it its own way. The order of names follows vLLM's `ModelConfig`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from modelctl.errors import InputError
from modelctl.model.strict_json import Json, read_object
from modelctl.model.tree import Tree

CONFIG_NAME = "config.json"
TEXT_SECTIONS = ("text_config", "language_config", "llm_config")

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
_MAX_LENGTH = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_NO_LIMIT = 1 << 40
"""A maximum length above this is how some writers say "none" (1e30)."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The facts of one config.json; None stands for "not stated" (or stated per layer: look into `text`)."""

    architectures: tuple[str, ...]
    model_type: str | None
    num_layers: int | None
    hidden_size: int | None
    num_attention_heads: int | None
    num_kv_heads: int | None
    """As stated; 1 for multi-query models; `num_attention_heads` when nothing is stated."""
    head_dim: int | None
    """As stated; hidden size over heads when it is not stated and divides."""
    vocab_size: int | None
    max_position_embeddings: int | None
    """The smallest stated maximum, in tokens, before any rope scaling."""
    dtype: str | None
    """`bfloat16`, `float16`, … without `torch.`."""
    tie_word_embeddings: bool | None
    quantization: Mapping[str, Json] | None
    """`quantization_config` (or `compression_config`) of the root or of the text part, raw."""
    auto_map: Mapping[str, str]
    """Every class that it asks to load from Python: dotted place in the file → `[repository--]module.Class`."""
    text: Mapping[str, Json]
    """The part that describes the language model: a nested section, or the root itself."""
    raw: Mapping[str, Json]


def load_config(tree: Tree) -> ModelConfig:
    """The config.json at the tree's root. Raises `InputError` when it is missing, hostile or says nonsense."""
    if CONFIG_NAME not in tree.by_path:
        raise InputError(
            f"{tree.root}: no {CONFIG_NAME}", remedy=f"name the folder that holds {CONFIG_NAME} and the weights"
        )
    return read_config(tree.location(CONFIG_NAME))


def read_config(path: Path) -> ModelConfig:
    """One config.json by path. Raises `InputError`."""
    return parse_config(read_object(path, origin=CONFIG_NAME))


def parse_config(raw: Mapping[str, Json]) -> ModelConfig:
    """The typed view of a parsed config.json. Raises `InputError` that names the key."""
    text = _text_section(raw)
    parts = (raw,) if text is raw else (text, raw)
    heads = _count(parts, _HEADS)
    hidden = _count(parts, _HIDDEN)
    return ModelConfig(
        architectures=_names(raw, "architectures"),
        model_type=_word(raw, "model_type"),
        num_layers=_count(parts, _LAYERS),
        hidden_size=hidden,
        num_attention_heads=heads,
        num_kv_heads=_kv_heads(text, heads),
        head_dim=_head_dim(parts, hidden, heads),
        vocab_size=_count(parts, ("vocab_size", "padded_vocab_size", "n_vocab")),
        max_position_embeddings=_max_length(text),
        dtype=_dtype(parts),
        tie_word_embeddings=_flag(parts, "tie_word_embeddings"),
        quantization=_quantization(parts),
        auto_map=dict(_auto_map(raw)),
        text=text,
        raw=raw,
    )


def _text_section(raw: Mapping[str, Json]) -> Mapping[str, Json]:
    for key in TEXT_SECTIONS:
        section = _section(raw, key)
        if section:
            return section
    return raw


def _kv_heads(text: Mapping[str, Json], heads: int | None) -> int | None:
    if _flag((text,), "multi_query") and not _flag((text,), "new_decoder_architecture"):
        return 1
    if any(isinstance(text.get(key), list) for key in _KV_HEADS):
        return None
    return _count((text,), _KV_HEADS) or heads


def _head_dim(parts: tuple[Mapping[str, Json], ...], hidden: int | None, heads: int | None) -> int | None:
    stated = _count(parts[:1], ("head_dim",))
    if stated is None and hidden is not None and heads is not None and hidden % heads == 0:
        return hidden // heads
    return stated


def _max_length(text: Mapping[str, Json]) -> int | None:
    found = [value for key in _MAX_LENGTH if (value := _count((text,), (key,))) is not None and value < _NO_LIMIT]
    return min(found, default=None)


def _dtype(parts: tuple[Mapping[str, Json], ...]) -> str | None:
    for part in reversed(parts):
        for key in ("dtype", "torch_dtype"):
            word = _word(part, key)
            if word is not None and word != "auto":
                return word.removeprefix("torch.")
    return None


def _quantization(parts: tuple[Mapping[str, Json], ...]) -> Mapping[str, Json] | None:
    for key in ("quantization_config", "compression_config"):
        for part in reversed(parts):
            section = _section(part, key)
            if section is not None:
                return section
    return None


def _auto_map(raw: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    waiting: list[tuple[str, Json, bool]] = [("", raw, False)]
    while waiting:
        place, value, inside = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [
                (f"{place}.{key}".lstrip("."), item, inside or key == "auto_map") for key, item in value.items()
            ]
        elif isinstance(value, list):
            waiting += [(f"{place}[{index}]", item, inside) for index, item in enumerate(value)]
        elif inside and value is not None:
            yield place, str(value)


def _section(part: Mapping[str, Json], key: str) -> Mapping[str, Json] | None:
    value = part.get(key)
    if value is None or isinstance(value, Mapping):
        return value
    raise _wrong(key, value, "an object")


def _count(parts: tuple[Mapping[str, Json], ...], keys: tuple[str, ...]) -> int | None:
    """The first stated positive count; null and 0 mean "not stated", a list "per layer"."""
    for part in parts:
        for key in keys:
            value = part.get(key)
            if value is None or isinstance(value, list) or value in (0, False):
                continue
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise _wrong(key, value, "a positive integer")
            return value
    return None


def _flag(parts: tuple[Mapping[str, Json], ...], key: str) -> bool | None:
    for part in parts:
        value = part.get(key)
        if isinstance(value, bool):
            return value
        if value is not None:
            raise _wrong(key, value, "true or false")
    return None


def _word(part: Mapping[str, Json], key: str) -> str | None:
    value = part.get(key)
    if value is None or isinstance(value, str):
        return value
    raise _wrong(key, value, "a string")


def _names(part: Mapping[str, Json], key: str) -> tuple[str, ...]:
    value = part.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _wrong(key, value, "a list of strings")
    words = tuple(item for item in value if isinstance(item, str))
    if len(words) != len(value):
        raise _wrong(key, value, "a list of strings")
    return words


def _wrong(key: str, value: object, wanted: str) -> InputError:
    return InputError(
        f"{CONFIG_NAME}: '{key}' is {ascii(value)[:80]}, wanted {wanted}",
        remedy=f"mend '{key}' in {CONFIG_NAME} or take the file from the upstream repository",
    )
