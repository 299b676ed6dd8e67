"""How much KV cache a model needs, computed the way vLLM lays it out (its `kv_cache_utils` and `kv_cache_interface`).

Everything is for one tensor-parallel rank. Layers of one kind (full, sliding, chunked attention) form groups of equal
size; each group takes its own blocks from one shared pool, so a need in blocks is a sum over groups:

    full     cdiv(length, block)
    sliding  cdiv(min(window - 1 + batched, length), block) + 1
    chunked  cdiv(min(chunk + batched, length), block)
    linear   1, whatever the length: a state and no cache (`linear_state`)

Other state beside attention, or caches of unequal size, is refused rather than guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from modelctl.errors import CannotDecideError
from modelctl.model.config import ModelConfig
from modelctl.sizing.linear_state import ELEMENT_BYTES, state_bytes

Kind = Literal["full", "sliding", "chunked", "linear"]

_FP8_DS_MLA_TOKEN_BYTES = 656
_LAYER_TYPES: Mapping[str, Kind] = {
    "full_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
}
_ALWAYS_WINDOWED = ("mistral", "mixtral", "phi3", "starcoder2")
"""Families whose `sliding_window`, when it is there, holds for every layer."""
_NOT_COMPUTED = (
    "mamba_d_state", "ssm_cfg", "state_size", "layers_block_type", "hybrid_override_pattern", "index_topk",
    "cross_attention_layers",
)  # fmt: skip
"""Keys of models whose cache is more than equal attention layers and linear ones."""


@dataclass(frozen=True, kw_only=True)
class KvLayout:
    """The KV cache of one model on one rank."""

    layers: Mapping[Kind, int]
    """Layers by kind; kinds without layers are left out."""
    window: int | None
    """Tokens that a sliding or chunked layer looks at."""
    layer_token_bytes: int
    """Bytes that one token takes in one layer: keys and values, or the shared latent of MLA."""
    block_size: int
    """Tokens per block; with linear layers the least multiple whose block holds a state."""
    batched_tokens: int
    """Tokens that may be computed at once beyond a window: `max_num_batched_tokens` times the batches in flight."""

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token while every window still holds it."""
        return self.layer_token_bytes * sum(count for kind, count in self.layers.items() if kind != "linear")

    @property
    def marginal_bytes_per_token(self) -> int:
        """Bytes that one more token costs once every window is full."""
        return self.layer_token_bytes * self.layers.get("full", 0)

    @property
    def group_size(self) -> int:
        """Layers per group: the smaller kind's count, or the larger when the two are close (under 1.5 times)."""
        counts = list(self.layers.values())
        return max(counts) if max(counts) < 1.5 * min(counts) else min(counts)

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of the pool."""
        return self.group_size * self.block_size * self.layer_token_bytes

    def need_blocks(self, length: int) -> int:
        """Blocks of the pool that one sequence of `length` tokens holds at its peak."""
        return sum(_cdiv(count, self.group_size) * self._blocks(kind, length) for kind, count in self.layers.items())

    def need_bytes(self, length: int) -> int:
        """Bytes that one sequence of `length` tokens holds at its peak."""
        return self.need_blocks(length) * self.block_bytes

    def _blocks(self, kind: Kind, length: int) -> int:
        if kind == "linear":
            return 1
        if kind == "full" or self.window is None:
            return _cdiv(length, self.block_size)
        if kind == "sliding":
            return _cdiv(min(self.window - 1 + self.batched_tokens, length), self.block_size) + 1
        return _cdiv(min(self.window + self.batched_tokens, length), self.block_size)


def kv_layout(
    config: ModelConfig,
    *,
    block_size: int,
    max_num_batched_tokens: int,
    tensor_parallel_size: int = 1,
    cache_dtype: str = "auto",
    batches_in_flight: int = 1,
) -> KvLayout:
    """The layout of a model; the function `batches_in_flight` knows that figure for an engine.

    Raises `CannotDecideError` for a model whose cache is not computed here.
    """
    for key in _NOT_COMPUTED:
        if config.text.get(key) not in (None, 0, [], {}):
            raise _not_computed(f"config.json has '{key}'")
    if config.num_layers is None:
        raise _not_computed("config.json does not say how many layers there are")
    layers, window = _kinds(config, _own_caches(config, config.num_layers))
    token_bytes = _layer_token_bytes(config, tensor_parallel_size, cache_dtype)
    if "linear" in layers:
        block_size *= _cdiv(state_bytes(config, tensor_parallel_size), block_size * token_bytes)
    return KvLayout(
        layers=layers,
        window=window,
        layer_token_bytes=token_bytes,
        block_size=block_size,
        batched_tokens=max_num_batched_tokens * batches_in_flight,
    )


def batches_in_flight(engine_version: str | None) -> int:
    """How many batches an engine of this version schedules at once: vLLM counts 2 from 0.33 on, which widens windows.

    An unknown version counts as a current one.
    """
    found = re.match(r"v?(\d+)\.(\d+)", engine_version or "")
    return 1 if found is not None and (int(found[1]), int(found[2])) < (0, 33) else 2


def _layer_token_bytes(config: ModelConfig, tensor_parallel_size: int, cache_dtype: str) -> int:
    latent, rope = config.text.get("kv_lora_rank"), config.text.get("qk_rope_head_dim")
    if cache_dtype == "fp8_ds_mla":
        return _FP8_DS_MLA_TOKEN_BYTES
    element = 1 if cache_dtype.startswith("fp8") else ELEMENT_BYTES.get(_stored_as(config, cache_dtype))
    if element is None:
        raise _not_computed(f"the cache's data type is '{_stored_as(config, cache_dtype)}'")
    if isinstance(latent, int) and isinstance(rope, int):
        return (latent + rope) * element  # one latent for all heads, whole on every rank
    if config.num_kv_heads is None or config.head_dim is None:
        raise _not_computed("config.json does not say the KV heads or the head size")
    heads = max(1, config.num_kv_heads // tensor_parallel_size)
    value_dim = config.text.get("v_head_dim")
    values = value_dim if isinstance(value_dim, int) else config.head_dim
    return heads * (config.head_dim + values) * element


def _stored_as(config: ModelConfig, cache_dtype: str) -> str:
    return (config.dtype or "bfloat16") if cache_dtype == "auto" else cache_dtype


def _own_caches(config: ModelConfig, layers: int) -> int:
    """Layers with a cache of their own: the last ones of some families read that of an earlier layer."""
    shared = config.text.get("num_kv_shared_layers")
    return layers - shared if isinstance(shared, int) and 0 < shared < layers else layers


def _kinds(config: ModelConfig, layers: int) -> tuple[dict[Kind, int], int | None]:
    text = config.text
    window = text.get("sliding_window")
    chunk = text.get("attention_chunk_size")
    types = text.get("layer_types")
    if isinstance(types, Sequence) and not isinstance(types, str) and types:
        if len(types) < layers:
            raise _not_computed(f"config.json names the kind of {len(types)} of {layers} layers")
        kinds = [_LAYER_TYPES.get(str(word)) for word in types[:layers]]
        if None in kinds:
            raise _not_computed(f"layers of kind {', '.join(sorted({str(word) for word in types}))}")
        found = {kind: count for kind in _LAYER_TYPES.values() if (count := kinds.count(kind))}
        size = chunk if "chunked" in found else window
        if set(found) == {"linear"}:
            raise _not_computed("every layer is linear")
        if not {"sliding", "chunked"} & found.keys():
            return found, None
        if not isinstance(size, int):
            raise _not_computed("windowed layers without a window's size")
        return found, size
    every = text.get("full_attention_interval")
    if isinstance(every, int) and every > 1 and text.get("linear_num_value_heads"):
        return _present({"full": layers // every, "linear": layers - layers // every}), None
    if isinstance(chunk, int) and chunk > 0 and config.model_type in ("llama4", "llama4_text"):
        full = layers // 4  # every fourth layer has no rotary positions and looks at everything
        return _present({"full": full, "chunked": layers - full}), chunk
    if not isinstance(window, int) or window <= 0 or text.get("use_sliding_window") is False:
        return {"full": layers}, None
    return _windowed(config, layers), window


def _windowed(config: ModelConfig, layers: int) -> dict[Kind, int]:
    """Which layers a plain `sliding_window` holds for, in families that do not list their layers."""
    pattern = config.text.get("sliding_window_pattern")
    first_windowed = config.text.get("max_window_layers")
    family = config.model_type or ""
    if isinstance(pattern, int) and pattern > 1:
        full = layers // pattern
    elif family.startswith("gemma3"):
        full = layers // 6
    elif family.startswith(("gemma2", "gpt_oss")):
        full = layers // 2
    elif config.text.get("use_sliding_window") is True and isinstance(first_windowed, int):
        full = min(layers, first_windowed)
    elif family in _ALWAYS_WINDOWED:
        full = 0
    else:
        raise _not_computed(f"a model of type '{family}' has a sliding window, and which layers use it is not known")
    return _present({"full": full, "sliding": layers - full})


def _present(counts: Mapping[Kind, int]) -> dict[Kind, int]:
    return {kind: count for kind, count in counts.items() if count > 0}


def _cdiv(amount: int, size: int) -> int:
    return -(-amount // size)


def _not_computed(why: str) -> CannotDecideError:
    return CannotDecideError(f"the KV cache of this model is not computed: {why}")
