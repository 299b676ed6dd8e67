from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from modelctl.errors import CannotDecideError
from modelctl.model.config import parse_config
from modelctl.sizing.kv import KvLayout, batches_in_flight, kv_layout


def config(layers: int, heads: int, hidden: int, **rest: Any) -> Mapping[str, Any]:
    return {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "hidden_size": hidden,
        "dtype": "bfloat16",
        **rest,
    }


def layout(raw: Mapping[str, Any], **arguments: Any) -> KvLayout:
    return kv_layout(parse_config(raw), **({"block_size": 16, "max_num_batched_tokens": 8192} | arguments))


def alternating(layers: int) -> list[str]:
    return ["sliding_attention", "full_attention"] * (layers // 2)


LLAMA_8B = config(32, 32, 4096, num_key_value_heads=8)
MISTRAL_7B = config(32, 32, 4096, num_key_value_heads=8, model_type="mistral", sliding_window=4096)
GEMMA_2_9B = config(42, 16, 3584, num_key_value_heads=8, head_dim=256, model_type="gemma2", sliding_window=4096)
GEMMA_3_27B = {
    "model_type": "gemma3",
    "text_config": config(
        62, 32, 5376, num_key_value_heads=16, head_dim=128, sliding_window=1024, sliding_window_pattern=6
    ),
}
GPT_OSS_20B = config(
    24,
    64,
    2880,
    num_key_value_heads=8,
    head_dim=64,
    sliding_window=128,
    layer_types=alternating(24),
    model_type="gpt_oss",
)
GPT_OSS_120B = config(
    36,
    64,
    2880,
    num_key_value_heads=8,
    head_dim=64,
    sliding_window=128,
    layer_types=alternating(36),
    model_type="gpt_oss",
)
LLAMA_4_SCOUT = {
    "model_type": "llama4",
    "text_config": config(
        48,
        40,
        5120,
        num_key_value_heads=8,
        head_dim=128,
        attention_chunk_size=8192,
        layer_types=(["chunked_attention"] * 3 + ["full_attention"]) * 12,
    ),
}
DEEPSEEK_V3 = config(61, 128, 7168, num_key_value_heads=128, kv_lora_rank=512, qk_rope_head_dim=64)

PER_TOKEN = {
    "Llama-2-7B": (config(32, 32, 4096), 524_288, 524_288),
    "Llama-3.1-8B": (LLAMA_8B, 131_072, 131_072),
    "Llama-3.1-70B": (config(80, 64, 8192, num_key_value_heads=8), 327_680, 327_680),
    "Qwen2.5-7B": (
        config(
            28, 28, 3584, num_key_value_heads=4, sliding_window=131072, use_sliding_window=False, max_window_layers=28
        ),
        57_344,
        57_344,
    ),
    "Qwen3-0.6B": (config(28, 16, 1024, num_key_value_heads=8, head_dim=128), 114_688, 114_688),
    "Qwen3-4B": (config(36, 32, 2560, num_key_value_heads=8, head_dim=128), 147_456, 147_456),
    "Qwen3-30B-A3B": (config(48, 32, 2048, num_key_value_heads=4, head_dim=128), 98_304, 98_304),
    "Mistral-7B-v0.1": (MISTRAL_7B, 131_072, 0),
    "Mixtral-8x7B": (
        config(32, 32, 4096, num_key_value_heads=8, model_type="mixtral", sliding_window=None),
        131_072,
        131_072,
    ),
    "Gemma-2-9B": (GEMMA_2_9B, 344_064, 172_032),
    "Gemma-3-27B": (GEMMA_3_27B, 507_904, 81_920),
    "gpt-oss-20b": (GPT_OSS_20B, 49_152, 24_576),
    "gpt-oss-120b": (GPT_OSS_120B, 73_728, 36_864),
    "DeepSeek-V3": (DEEPSEEK_V3, 70_272, 70_272),
    "DeepSeek-V2-Lite": (
        config(27, 16, 2048, num_key_value_heads=16, kv_lora_rank=512, qk_rope_head_dim=64),
        31_104,
        31_104,
    ),
    "Falcon-7B": (config(32, 71, 4544, multi_query=True), 8_192, 8_192),
    "Falcon-40B": (
        config(60, 128, 8192, num_kv_heads=8, new_decoder_architecture=True, multi_query=True),
        122_880,
        122_880,
    ),
    "Llama-4-Scout": (LLAMA_4_SCOUT, 196_608, 49_152),
    "GLM-4.5": (config(92, 96, 5120, num_key_value_heads=8, head_dim=128), 376_832, 376_832),
    "GLM-4.7-Flash": (config(47, 20, 2048, kv_lora_rank=512, qk_rope_head_dim=64), 54_144, 54_144),
}


QWEN3_NEXT = config(
    48, 16, 2048, num_key_value_heads=2, head_dim=256, full_attention_interval=4, linear_num_key_heads=16,
    linear_key_head_dim=128, linear_num_value_heads=32, linear_value_head_dim=128, linear_conv_kernel_dim=4,
)  # fmt: skip


@pytest.mark.parametrize("name", PER_TOKEN)
def test_bytes_per_token(name: str) -> None:
    raw, whole, marginal = PER_TOKEN[name]
    found = layout(raw)
    assert (found.bytes_per_token, found.marginal_bytes_per_token) == (whole, marginal)


@pytest.mark.parametrize(
    ("raw", "need"),
    [
        (MISTRAL_7B, 1_612_709_888),
        (GEMMA_2_9B, 7_753_826_304),
        (GEMMA_3_27B, 7_222_067_200),
        (GPT_OSS_20B, 1_010_171_904),
        (GPT_OSS_120B, 1_515_257_856),
        (LLAMA_4_SCOUT, 4_026_531_840),
        (LLAMA_8B, 131_072 * 32768),
    ],
)
def test_need_of_a_long_sequence(raw: Mapping[str, Any], need: int) -> None:
    assert layout(raw).need_bytes(32768) == need


def test_need_grows_by_blocks() -> None:
    found = layout(LLAMA_8B)
    assert [found.need_blocks(length) for length in (1, 16, 17, 32, 33)] == [1, 1, 2, 2, 3]


def test_a_windows_need_stops_growing_one_block_over_the_window() -> None:
    found = layout(MISTRAL_7B, max_num_batched_tokens=2048)
    assert found.need_blocks(6143) == found.need_blocks(100_000) == 384 + 1


def test_two_batches_in_flight_widen_a_window() -> None:
    assert layout(MISTRAL_7B, batches_in_flight=2).need_blocks(32768) == -(-(4095 + 2 * 8192) // 16) + 1


def test_ranks_share_heads_until_one_is_left() -> None:
    raw = config(48, 32, 2048, num_key_value_heads=4, head_dim=128)
    per_rank = [layout(raw, tensor_parallel_size=size).bytes_per_token for size in (1, 2, 4, 8, 16)]
    assert per_rank == [98_304, 49_152, 24_576, 24_576, 24_576]
    assert layout(DEEPSEEK_V3, tensor_parallel_size=8).bytes_per_token == 70_272


def test_an_8_bit_cache_halves_it() -> None:
    assert layout(LLAMA_8B, cache_dtype="fp8_e4m3").bytes_per_token == 65_536
    assert layout(DEEPSEEK_V3, cache_dtype="fp8_ds_mla").bytes_per_token == 40_016


@pytest.mark.parametrize(
    "extra",
    [
        {"layer_types": ["linear_attention"] * 24 + ["full_attention"] * 8},
        {"layer_types": ["linear_attention"] * 32},
        {"mamba_d_state": 128},
        {"sliding_window": 512, "model_type": "something_new"},
        {"layer_types": ["sliding_attention"] * 32},
        {"dtype": "float4"},
    ],
)
def test_what_is_not_computed_is_refused_rather_than_guessed(extra: Mapping[str, Any]) -> None:
    with pytest.raises(CannotDecideError, match="not computed"):
        layout({**LLAMA_8B, **extra})


@pytest.mark.parametrize(
    ("version", "batches"), [("0.32.0", 1), ("0.33.0", 2), ("0.9.2", 1), ("1.0.0rc1", 2), (None, 2), ("unknown", 2)]
)
def test_the_engines_version_decides_how_many_batches_are_in_flight(version: str | None, batches: int) -> None:
    assert batches_in_flight(version) == batches


def test_linear_layers_hold_one_state_a_stream_whatever_the_length() -> None:
    found = layout(QWEN3_NEXT)
    assert (found.bytes_per_token, found.marginal_bytes_per_token) == (24_576, 24_576)
    assert found.block_size == 544  # vLLM's own choice for this model: a block must hold a state
    assert found.need_blocks(1) == 1 + 3
    assert found.need_blocks(32768) == -(-32768 // 544) + 3
    listed = {**QWEN3_NEXT, "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 12}
    assert layout(listed) == found


def test_layers_that_share_a_cache_have_none_of_their_own() -> None:
    assert layout({**LLAMA_8B, "num_kv_shared_layers": 12}).bytes_per_token == 131_072 * 20 // 32
