"""Does a model fit a GPU: the KV pool that is left, how many streams of a length it holds, and the flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from modelctl.errors import CannotDecideError
from modelctl.sizing.budget import Budget, budget
from modelctl.sizing.facts import ModelFacts
from modelctl.sizing.gpus import Gpu
from modelctl.sizing.kv import KvLayout, batches_in_flight, kv_layout

RANKS = (1, 2, 4, 8, 16)
"""Tensor-parallel sizes that are tried."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What is to be served, and how the engine is set."""

    length: int | None = None
    """Prompt and answer of one stream, in tokens; None: the longest that config.json states."""
    streams: int = 1
    utilisation: float = 0.9
    batched_tokens: int = 8192
    """max_num_batched_tokens."""
    cache_dtype: str = "auto"
    block_size: int = 16
    engine_version: str | None = None
    eager: bool = False


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A model on `ranks` GPUs of one kind, serving a demand; bytes are those of one rank."""

    facts: ModelFacts
    gpu: Gpu
    ranks: int
    demand: Demand
    length: int
    budget: Budget
    layout: KvLayout

    @property
    def pool_blocks(self) -> int:
        """Blocks of the KV pool."""
        return max(0, self.budget.kv_pool) // self.layout.block_bytes

    @property
    def blocks_a_stream(self) -> int:
        """Blocks that one stream of the length takes at its peak."""
        return self.layout.need_blocks(self.length)

    @property
    def streams(self) -> int:
        """Streams of the length that the pool holds at once."""
        return self.pool_blocks // self.blocks_a_stream

    @cached_property
    def longest(self) -> int:
        """The longest single stream in tokens that the pool holds, at most what config.json states; 0 for none."""
        stated = self.facts.config.max_position_embeddings or self.length
        low, high = 0, stated
        while low < high:
            middle = (low + high + 1) // 2
            if self.layout.need_blocks(middle) <= self.pool_blocks:
                low = middle
            else:
                high = middle - 1
        return low

    @property
    def over_stated(self) -> bool:
        """Whether the length is more than config.json states."""
        stated = self.facts.config.max_position_embeddings
        return stated is not None and self.length > stated

    @property
    def fits(self) -> bool:
        """Whether the pool holds all streams at the length, and the model states such a length."""
        return self.streams >= self.demand.streams and not self.over_stated

    @property
    def why_not(self) -> str | None:
        """Why it does not fit, in numbers; None when it does."""
        if self.over_stated:
            return f"config.json states at most {self.facts.config.max_position_embeddings:,} tokens"
        if self.fits:
            return None
        if self.budget.kv_pool <= 0:
            return f"the weights and what the engine needs are {-self.budget.kv_pool / 2**30:.1f} GiB over the memory"
        if self.streams == 0:
            return f"the KV pool holds one stream of {self.longest:,} tokens, wanted are {self.length:,}"
        return f"the KV pool holds {self.streams} streams of {self.length:,} tokens, wanted are {self.demand.streams}"

    @property
    def flags(self) -> Mapping[str, str]:
        """vLLM's flags for this plan, none left to a default."""
        flags = {
            "--max-model-len": str(self.length),
            "--max-num-seqs": str(max(1, self.demand.streams)),
            "--max-num-batched-tokens": str(self.demand.batched_tokens),
            "--gpu-memory-utilization": f"{self.demand.utilisation:g}",
            "--tensor-parallel-size": str(self.ranks),
            "--block-size": str(self.demand.block_size),
        }
        if self.demand.cache_dtype != "auto":
            flags["--kv-cache-dtype"] = self.demand.cache_dtype
        return flags


def plan_on(facts: ModelFacts, gpu: Gpu, demand: Demand, *, ranks: int) -> Plan:
    """The plan on so many GPUs. Raises `CannotDecideError` when the KV cache is not computed or no length is stated."""
    length = demand.length or facts.config.max_position_embeddings
    if length is None:
        raise CannotDecideError(f"{facts.name}: config.json states no maximum length", remedy="add --length TOKENS")
    layout = kv_layout(
        facts.config,
        block_size=demand.block_size,
        max_num_batched_tokens=demand.batched_tokens,
        tensor_parallel_size=ranks,
        cache_dtype=demand.cache_dtype,
        batches_in_flight=batches_in_flight(demand.engine_version),
    )
    room = budget(
        facts.config,
        weight_bytes=facts.weight_bytes,
        memory_bytes=gpu.memory_bytes,
        utilisation=demand.utilisation,
        ranks=ranks,
        batched_tokens=demand.batched_tokens,
        streams=demand.streams,
        eager=demand.eager,
    )
    return Plan(facts=facts, gpu=gpu, ranks=ranks, demand=demand, length=length, budget=room, layout=layout)


def possible_ranks(facts: ModelFacts, gpu: Gpu, most: int) -> tuple[int, ...]:
    """Tensor-parallel sizes that divide the attention heads; slices of one GPU can't be joined."""
    heads = facts.config.num_attention_heads or 1
    if ":" in gpu.name:
        return (1,)
    return tuple(ranks for ranks in RANKS if ranks <= most and heads % ranks == 0)


def best_plan(facts: ModelFacts, gpu: Gpu, demand: Demand, *, most: int) -> Plan:
    """The plan on the fewest GPUs that fits, else the one on the most."""
    plan = None
    for ranks in possible_ranks(facts, gpu, most) or (1,):
        plan = plan_on(facts, gpu, demand, ranks=ranks)
        if plan.fits:
            break
    if plan is None:
        raise AssertionError("one rank is always tried")
    return plan
