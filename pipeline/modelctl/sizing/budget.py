"""Where a GPU's memory goes when vLLM serves a model, and what is left for the KV cache.

    KV pool = memory * utilisation - weights - activations - CUDA context and NCCL - CUDA graphs

as vLLM's `determine_available_memory` subtracts what it measures while it profiles. Weights are real bytes. The last
three are estimates, since only a run on the GPU can measure them: the engine prints its own figures at start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelctl.model.config import ModelConfig
from modelctl.model.strict_json import Json

GIB = 1 << 30
CONTEXT_BYTES = GIB // 2
"""What the driver and the libraries take on each GPU (estimate)."""
NCCL_BYTES = GIB // 2
"""Buffers of the communication between GPUs (estimate)."""
GRAPH_BYTES = 3 * GIB // 4
"""Captured CUDA graphs (estimate)."""
_ACTIVATION_BYTES = 2
_SAMPLER_BYTES = 10
"""Of each logit: 16 bits as computed, and two 32-bit copies for sampling."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The memory of one of `ranks` GPUs, in bytes."""

    memory: int
    utilisation: float
    ranks: int
    weights: int
    activations: int
    context: int
    graphs: int

    @property
    def kv_pool(self) -> int:
        """What is left for the KV cache; below zero when the weights alone do not fit."""
        used = self.weights + self.activations + self.context + self.graphs
        return int(self.memory * self.utilisation) - used


def budget(
    config: ModelConfig,
    *,
    weight_bytes: int,
    memory_bytes: int,
    utilisation: float,
    ranks: int,
    batched_tokens: int,
    streams: int,
    eager: bool = False,
) -> Budget:
    """The budget of one rank. `batched_tokens` is max_num_batched_tokens, `streams` is max_num_seqs."""
    return Budget(
        memory=memory_bytes,
        utilisation=utilisation,
        ranks=ranks,
        weights=-(-weight_bytes // ranks),
        activations=activation_bytes(config, ranks=ranks, batched_tokens=batched_tokens, streams=streams),
        context=CONTEXT_BYTES + (NCCL_BYTES if ranks > 1 else 0),
        graphs=0 if eager else GRAPH_BYTES,
    )


def activation_bytes(config: ModelConfig, *, ranks: int, batched_tokens: int, streams: int) -> int:
    """Peak of one forward pass (estimate): the widest layer over all batched tokens, or the logits, with the residual.

    The widest point of a layer is the MLP (gate, up and their product) or attention (queries, keys, values, output).
    """
    hidden = config.hidden_size or 0
    width = _mlp_width(config.text) // ranks
    heads = (config.num_attention_heads or 0) + 2 * (config.num_kv_heads or 0)
    attention = heads * (config.head_dim or 0) // ranks + hidden
    layer = batched_tokens * (2 * hidden + max(3 * width, attention)) * _ACTIVATION_BYTES
    logits = streams * (config.vocab_size or 0) * _SAMPLER_BYTES
    residual = batched_tokens * hidden * _ACTIVATION_BYTES
    return max(layer, residual + logits)


def _mlp_width(text: Mapping[str, Json]) -> int:
    """Columns of the MLP that one token uses; all chosen experts together in a mixture."""
    dense = _number(text, "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
    expert = _number(text, "moe_intermediate_size", "expert_intermediate_size")
    chosen = _number(text, "num_experts_per_tok", "num_experts_per_token", "moe_top_k")
    if chosen:
        return max(dense if expert else 0, (expert or dense) * chosen)
    return dense


def _number(text: Mapping[str, Json], *keys: str) -> int:
    for key in keys:
        value = text.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return 0
