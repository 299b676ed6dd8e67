"""config.json as typed facts, and hostile ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelctl.errors import InputError
from modelctl.model.config import ModelConfig, load_config, parse_config, read_config
from modelctl.model.strict_json import Json
from modelctl.model.tree import scan_tree
from tests.support.models import tiny_llama


def config(**keys: Json) -> ModelConfig:
    return parse_config(keys)


def test_a_plain_llama(tmp_path: Path) -> None:
    found = load_config(scan_tree(tiny_llama(tmp_path)))
    assert found.architectures == ("LlamaForCausalLM",)
    assert (found.num_layers, found.hidden_size, found.num_attention_heads, found.num_kv_heads) == (2, 64, 4, 2)
    assert (found.head_dim, found.vocab_size, found.max_position_embeddings) == (16, 320, 256)
    assert (found.dtype, found.tie_word_embeddings, found.quantization) == ("bfloat16", True, None)


@pytest.mark.parametrize(
    ("keys", "kv_heads", "head_dim"),
    [
        ({"num_attention_heads": 32, "hidden_size": 4096}, 32, 128),
        ({"num_attention_heads": 32, "hidden_size": 2560, "num_key_value_heads": 8, "head_dim": 128}, 8, 128),
        ({"num_attention_heads": 96, "hidden_size": 5120, "num_key_value_heads": 8, "head_dim": None}, 8, None),
        ({"num_attention_heads": 16, "hidden_size": 1024, "head_dim": 0, "num_key_value_heads": None}, 16, 64),
        ({"n_head": 71, "hidden_size": 4544, "multi_query": True, "num_kv_heads": 71}, 1, 64),
        ({"n_head": 128, "hidden_size": 8192, "multi_query": True, "new_decoder_architecture": True,
          "num_kv_heads": 8}, 8, 64),
        ({"num_attention_heads": 32, "hidden_size": 4096, "multi_query_group_num": 2}, 2, 128),
        ({"num_attention_heads": 32, "hidden_size": 4096, "num_kv_heads": [4, 8]}, None, 128),
    ],
)  # fmt: skip
def test_heads(keys: dict[str, Json], kv_heads: int | None, head_dim: int | None) -> None:
    found = parse_config(keys)
    assert (found.num_kv_heads, found.head_dim) == (kv_heads, head_dim)


def test_the_text_part_outranks_the_root() -> None:
    found = config(
        model_type="gemma3",
        dtype="bfloat16",
        hidden_size=1,
        text_config={"hidden_size": 5376, "num_attention_heads": 32, "head_dim": 128, "num_key_value_heads": 16},
    )
    assert (found.model_type, found.hidden_size, found.num_kv_heads, found.dtype) == ("gemma3", 5376, 16, "bfloat16")


def test_the_smallest_maximum_length_wins_and_no_limit_is_none() -> None:
    assert config(max_position_embeddings=131072, model_max_length=8192).max_position_embeddings == 8192
    assert config(max_position_embeddings=4096, model_max_length=1e30).max_position_embeddings == 4096
    assert config().max_position_embeddings is None


@pytest.mark.parametrize(
    "keys",
    [
        {"quantization_config": {"bits": 4}},
        {"text_config": {"quantization_config": {"bits": 4}}},
        {"compression_config": {"bits": 4}},
    ],
)
def test_quantization_is_found_wherever_it_is(keys: dict[str, Json]) -> None:
    assert parse_config(keys).quantization == {"bits": 4}


def test_auto_map_is_found_at_any_depth() -> None:
    found = config(
        auto_map={"AutoModel": "other/repo--mod.Cls"},
        text_config={"vision": [{"auto_map": {"AutoTokenizer": ["tok.Slow", None]}}]},
    )
    assert found.auto_map == {
        "auto_map.AutoModel": "other/repo--mod.Cls",
        "text_config.vision[0].auto_map.AutoTokenizer[0]": "tok.Slow",
    }


def test_dtype_loses_its_prefix() -> None:
    assert config(torch_dtype="torch.float16").dtype == "float16"
    assert config(dtype="auto").dtype is None


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ({"num_hidden_layers": "32"}, "num_hidden_layers"),
        ({"hidden_size": -1}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"hidden_size": 1.5}, "hidden_size"),
        ({"architectures": "LlamaForCausalLM"}, "architectures"),
        ({"architectures": [1]}, "architectures"),
        ({"text_config": [1]}, "text_config"),
        ({"quantization_config": "gptq"}, "quantization_config"),
        ({"dtype": 16}, "dtype"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
    ],
)
def test_a_wrong_type_is_named(keys: dict[str, Json], word: str) -> None:
    with pytest.raises(InputError, match=f"'{word}'") as caught:
        parse_config(keys)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"[]", "array"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": {"b": 1, "b": 2}}', "twice"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\ud800": 1}', "surrogate"),
        (b"\xff{}", "UTF-8 at byte 0"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}", "deeper than 64"),
        (b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "deeper than 64"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a": [' + b"0," * 4_100_000 + b"0]}", "more than 4000000 values"),
        (b'{"a": "' + b"x" * (16 << 20) + b'"}', "larger than"),
    ],
)
def test_a_hostile_file_is_refused_in_words(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_config(path)


def test_infinity_is_what_python_programs_write(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b'{"time_step_limit": [0.0, Infinity]}')
    assert read_config(path).raw["time_step_limit"] == [0.0, float("inf")]


def test_a_missing_config_says_where(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    with pytest.raises(InputError, match=r"no config\.json"):
        load_config(scan_tree(tmp_path))
