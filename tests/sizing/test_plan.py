from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from modelctl.errors import CannotDecideError
from modelctl.model.config import parse_config
from modelctl.sizing.budget import budget
from modelctl.sizing.cost import cost_per_million, decode_bound, hourly_price
from modelctl.sizing.facts import ModelFacts
from modelctl.sizing.gpus import find_gpu
from modelctl.sizing.kv import kv_layout
from modelctl.sizing.plan import Demand, best_plan, plan_on, possible_ranks
from modelctl.sizing.slices import smallest_slice
from modelctl.sizing.ways_out import quantised, ways_out


def facts(weight_bytes: int, **config: Any) -> ModelFacts:
    raw = {
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "dtype": "bfloat16",
        "tie_word_embeddings": False,
        **config,
    }
    return ModelFacts(name="org/model", config=parse_config(raw), weight_bytes=weight_bytes, measured="given")


LLAMA_8B = facts(16_060_522_496)
"""Llama 3.1 8B: what its four shards hold."""
LLAMA_70B = facts(
    141_107_412_992, num_hidden_layers=80, num_attention_heads=64, hidden_size=8192, intermediate_size=28672
)


def test_a_7b_at_16_bits_takes_14_gb() -> None:
    room = budget(
        LLAMA_8B.config, weight_bytes=7_000_000_000 * 2, memory_bytes=24 << 30, utilisation=1.0, ranks=1,
        batched_tokens=2048, streams=1,
    )  # fmt: skip
    assert room.weights == 14_000_000_000


def test_forty_layers_with_eight_heads_take_163840_bytes_a_token() -> None:
    config = facts(0, num_hidden_layers=40, num_attention_heads=40, hidden_size=5120, dtype="float16").config
    assert kv_layout(config, block_size=16, max_num_batched_tokens=2048).bytes_per_token == 163_840


def test_eight_requests_of_2048_tokens_of_a_7b_take_8_6_gb() -> None:
    config = facts(0, num_key_value_heads=32, dtype="float16").config
    need = 8 * kv_layout(config, block_size=16, max_num_batched_tokens=2048).need_bytes(2048)
    assert need == 8_589_934_592


def test_the_pool_is_what_the_rest_leaves() -> None:
    plan = plan_on(LLAMA_8B, find_gpu("H100-80GB"), Demand(length=8192, streams=32), ranks=1)
    room = plan.budget
    rest = int(room.memory * 0.9) - room.weights - room.activations - room.context - room.graphs
    assert room.kv_pool == rest > 0
    assert plan.pool_blocks == rest // (131_072 * 16)
    assert plan.streams == plan.pool_blocks // 512
    assert plan.fits
    assert plan.why_not is None
    assert ways_out(plan) == ()


def test_flags_are_all_explicit() -> None:
    flags = plan_on(LLAMA_8B, find_gpu("L40S"), Demand(length=4096, streams=8, cache_dtype="fp8"), ranks=2).flags
    assert flags == {
        "--max-model-len": "4096",
        "--max-num-seqs": "8",
        "--max-num-batched-tokens": "8192",
        "--gpu-memory-utilization": "0.9",
        "--tensor-parallel-size": "2",
        "--block-size": "16",
        "--kv-cache-dtype": "fp8",
    }


def test_the_longest_stream_is_the_last_length_that_the_pool_holds() -> None:
    plan = plan_on(LLAMA_8B, find_gpu("L4"), Demand(length=8192), ranks=1)
    assert 0 < plan.longest < 131_072
    assert plan.layout.need_blocks(plan.longest) <= plan.pool_blocks < plan.layout.need_blocks(plan.longest + 1)
    roomy = plan_on(LLAMA_8B, find_gpu("B200"), Demand(), ranks=1)
    assert roomy.longest == roomy.length == 131_072


def test_the_fewest_gpus_that_fit_are_taken() -> None:
    assert best_plan(LLAMA_70B, find_gpu("H100-80GB"), Demand(length=8192, streams=16), most=8).ranks == 4
    alone = best_plan(LLAMA_70B, find_gpu("H100-80GB"), Demand(length=8192), most=1)
    assert (alone.ranks, alone.fits) == (1, False)
    assert alone.why_not is not None
    assert "over the memory" in alone.why_not


def test_ranks_divide_the_heads_and_slices_are_not_joined() -> None:
    odd = facts(10**9, num_attention_heads=9, num_key_value_heads=3, hidden_size=576)
    assert possible_ranks(odd, find_gpu("L4"), 8) == (1,)
    assert possible_ranks(LLAMA_8B, find_gpu("H100-80GB:1g.10gb"), 8) == (1,)
    assert possible_ranks(LLAMA_8B, find_gpu("L4"), 8) == (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        (Demand(length=200_000), "at most 131,072 tokens"),
        (Demand(length=131_072), "one stream of"),
        (Demand(length=8192, streams=100), "streams of 8,192 tokens, wanted are 100"),
    ],
)
def test_why_it_does_not_fit(demand: Demand, words: str) -> None:
    plan = plan_on(LLAMA_8B, find_gpu("L4"), demand, ranks=1)
    assert plan.why_not is not None
    assert words in plan.why_not


def test_ways_out_come_in_order_of_cost_and_all_fit() -> None:
    firsts = {}
    for streams in (25, 40, 60):
        found = ways_out(plan_on(LLAMA_8B, find_gpu("L40S"), Demand(length=8192, streams=streams), ranks=1))
        assert all(way.plan.fits for way in found)
        firsts[streams] = [way.what.split()[0] for way in found]
    assert firsts[25] == ["quantise", "keep", "serve"]
    assert firsts[40] == ["keep", "serve", "2"]
    assert firsts[60] == ["quantise", "serve", "3"]  # both together, since neither alone is enough
    many = ways_out(plan_on(LLAMA_8B, find_gpu("L4"), Demand(length=8192, streams=500), ranks=1))
    assert "replicas" in many[0].what
    assert all(way.plan.fits for way in many)


def test_the_smallest_slice_that_is_enough() -> None:
    plan = plan_on(LLAMA_8B, find_gpu("H100-80GB"), Demand(length=8192, streams=16), ranks=1)
    part = smallest_slice(plan)
    assert part is not None
    assert (part.gpu.name, part.fits) == ("H100-80GB:3g.40gb", True)  # of two with as much memory that with fewer cores
    smaller = plan_on(LLAMA_8B, find_gpu("H100-80GB:2g.20gb"), plan.demand, ranks=1)
    assert not smaller.fits
    assert smallest_slice(smaller) is None
    for gpu, streams in (("H100-80GB", 50), ("L40S", 4)):  # too much for a slice; a card without slices
        assert smallest_slice(plan_on(LLAMA_8B, find_gpu(gpu), Demand(length=8192, streams=streams), ranks=1)) is None


def test_a_slice_is_mended_by_a_larger_one_and_then_by_its_card() -> None:
    firsts = {}
    for streams in (16, 50):
        found = ways_out(
            plan_on(LLAMA_8B, find_gpu("H100-80GB:1g.20gb"), Demand(length=8192, streams=streams), ranks=1)
        )
        assert all(way.plan.fits for way in found)
        firsts[streams] = [way.what for way in found if "H100" in way.what]
    assert firsts == {16: ["a larger slice, H100-80GB:3g.40gb"], 50: ["the whole card, H100-80GB"]}


def test_no_8_bit_cache_where_the_gpu_has_no_8_bit_floats() -> None:
    plan = plan_on(LLAMA_8B, find_gpu("A10"), Demand(length=8192, streams=12), ranks=1)
    assert not any("8 bits" in way.what for way in ways_out(plan))


def test_a_length_over_the_stated_one_is_only_mended_by_shortening() -> None:
    found = ways_out(plan_on(LLAMA_8B, find_gpu("H100-80GB"), Demand(length=200_000), ranks=1))
    assert [way.what for way in found] == ["serve at most 131,072 tokens instead of 200,000"]


def test_quantised_weights_keep_the_embedding() -> None:
    small = quantised(LLAMA_8B)
    assert small is not None
    tables = 2 * 128256 * 4096 * 2
    assert small.weight_bytes == tables + int((16_060_522_496 - tables) * (4 + 20 / 128) / 16)
    packed = replace(LLAMA_8B, config=parse_config({**LLAMA_8B.config.raw, "quantization_config": {"bits": 4}}))
    assert quantised(packed) is None


def test_costs() -> None:
    assert cost_per_million(price_per_hour=3.6, gpus=2, tokens_per_s=1000) == pytest.approx(2.0)
    assert hourly_price(purchase=35_040, years=4, power_w=1000, price_per_kwh=0.25) == pytest.approx(1.25)


def test_the_bound_reads_weights_once_a_step() -> None:
    plan = plan_on(LLAMA_8B, find_gpu("H100-80GB"), Demand(length=16, streams=1), ranks=1)
    bound = decode_bound(plan)
    assert bound == pytest.approx(3.35e12 / (16_060_522_496 + 131_072 * 16))
    assert decode_bound(plan_on(LLAMA_8B, find_gpu("80GiB"), Demand(length=16), ranks=1)) is None


def test_a_model_without_a_stated_length_needs_one() -> None:
    config = {key: value for key, value in LLAMA_8B.config.raw.items() if key != "max_position_embeddings"}
    silent = replace(LLAMA_8B, config=parse_config(config))
    with pytest.raises(CannotDecideError, match="no maximum length"):
        plan_on(silent, find_gpu("L4"), Demand(), ranks=1)
