"""The known architectures: which tensors each has, and their shapes, from the facts of its config.json.

Written down from the module definitions in transformers 5 (`modeling_<family>.py`) and held to them by a test that has
transformers make one of each. What a config leaves out has the default of the family's configuration class only where
it is common to leave it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Literal

from modelctl.model.config import ModelConfig
from modelctl.model.family import Facts, Family, Parameter

Head = Literal["causal", "bare", "other"]
"""What an architecture puts on the bare model: a language model's head, nothing, something else."""


def family_of(config: ModelConfig) -> tuple[Family, Head] | None:
    """The family of the first architecture and what it puts on the bare model; None when it is not known."""
    if not config.architectures or config.auto_map or config.text is not config.raw:
        return None
    found = _CLASS.fullmatch(config.architectures[0])
    family = FAMILIES.get(found[1]) if found else None
    if found is None or family is None:
        return None
    return family, _HEADS.get(found[2], "other")


_CLASS = re.compile(r"([A-Z][A-Za-z0-9]*?)(Model|LMHeadModel|For(?:CausalLM|MaskedLM|[A-Z][A-Za-z]*Classification))")
_HEADS: Mapping[str, Head] = {"ForCausalLM": "causal", "LMHeadModel": "causal", "Model": "bare"}


def _linear(name: str, outputs: int, inputs: int, *, bias: bool = False) -> Iterator[Parameter]:
    yield Parameter(name=f"{name}.weight", shape=(outputs, inputs), linear=True)
    if bias:
        yield Parameter(name=f"{name}.bias", shape=(outputs,))


def _norm(name: str, size: int, *, bias: bool = False) -> Iterator[Parameter]:
    yield Parameter(name=f"{name}.weight", shape=(size,))
    if bias:
        yield Parameter(name=f"{name}.bias", shape=(size,))


def _decoder_outer(facts: Facts) -> Iterator[Parameter]:
    yield Parameter(name="embed_tokens.weight", shape=(None, facts.hidden))
    yield from _norm("norm", facts.hidden)


def _attention(
    facts: Facts, *, bias: bool, output_bias: bool, head_dim: int | None = None, head_norms: bool = False
) -> Iterator[Parameter]:
    width = facts.head_dim(head_dim)
    for name, heads in (("q", facts.heads), ("k", facts.kv_heads), ("v", facts.kv_heads)):
        yield from _linear(f"self_attn.{name}_proj", heads * width, facts.hidden, bias=bias)
    yield from _linear("self_attn.o_proj", facts.hidden, facts.heads * width, bias=output_bias)
    if head_norms:
        yield from _norm("self_attn.q_norm", width)
        yield from _norm("self_attn.k_norm", width)


def _gated(facts: Facts, name: str, inner: int, *, bias: bool = False) -> Iterator[Parameter]:
    yield from _linear(f"{name}.gate_proj", inner, facts.hidden, bias=bias)
    yield from _linear(f"{name}.up_proj", inner, facts.hidden, bias=bias)
    yield from _linear(f"{name}.down_proj", facts.hidden, inner, bias=bias)


def _norms(facts: Facts, *names: str) -> Iterator[Parameter]:
    for name in names or ("input_layernorm", "post_attention_layernorm"):
        yield from _norm(name, facts.hidden)


def _llama(facts: Facts, _: int) -> Iterator[Parameter]:
    yield from _norms(facts)
    bias = facts.flag("attention_bias")
    yield from _attention(facts, bias=bias, output_bias=bias)
    yield from _gated(facts, "mlp", facts.count("intermediate_size"), bias=facts.flag("mlp_bias"))


def _mistral(facts: Facts, _: int) -> Iterator[Parameter]:
    yield from _norms(facts)
    yield from _attention(facts, bias=False, output_bias=False)
    yield from _gated(facts, "mlp", facts.count("intermediate_size"))


def _qwen2(facts: Facts, _: int) -> Iterator[Parameter]:
    yield from _norms(facts)
    yield from _attention(facts, bias=True, output_bias=False)
    yield from _gated(facts, "mlp", facts.count("intermediate_size"))


def _qwen3(facts: Facts, _: int) -> Iterator[Parameter]:
    yield from _norms(facts)
    bias = facts.flag("attention_bias")
    yield from _attention(facts, bias=bias, output_bias=bias, head_dim=128, head_norms=True)
    yield from _gated(facts, "mlp", facts.count("intermediate_size"))


def _gemma(facts: Facts, _: int) -> Iterator[Parameter]:
    yield from _norms(facts)
    bias = facts.flag("attention_bias")
    yield from _attention(facts, bias=bias, output_bias=bias, head_dim=256)
    yield from _gated(facts, "mlp", facts.count("intermediate_size"))


def _gemma2(facts: Facts, layer: int) -> Iterator[Parameter]:
    yield from _gemma(facts, layer)
    yield from _norms(facts, "pre_feedforward_layernorm", "post_feedforward_layernorm")


def _gemma3(facts: Facts, layer: int) -> Iterator[Parameter]:
    yield from _gemma2(facts, layer)
    yield from _norm("self_attn.q_norm", facts.head_dim(256))
    yield from _norm("self_attn.k_norm", facts.head_dim(256))


def _phi3(facts: Facts, _: int) -> Iterator[Parameter]:
    width, inner = facts.head_dim(), facts.count("intermediate_size")
    yield from _norms(facts)
    yield from _linear("self_attn.qkv_proj", (facts.heads + 2 * facts.kv_heads) * width, facts.hidden)
    yield from _linear("self_attn.o_proj", facts.hidden, facts.heads * width)
    yield from _linear("mlp.gate_up_proj", 2 * inner, facts.hidden)
    yield from _linear("mlp.down_proj", facts.hidden, inner)


def _mixtral(facts: Facts, _: int) -> Iterator[Parameter]:
    inner, experts = facts.count("intermediate_size"), facts.count("num_local_experts")
    yield from _norms(facts)
    yield from _attention(facts, bias=False, output_bias=False)
    yield from _linear("block_sparse_moe.gate", experts, facts.hidden)
    for expert in range(experts):
        for name, outputs, inputs in (
            ("w1", inner, facts.hidden),
            ("w2", facts.hidden, inner),
            ("w3", inner, facts.hidden),
        ):
            yield from _linear(f"block_sparse_moe.experts.{expert}.{name}", outputs, inputs)


def _experts(facts: Facts, layer: int, *, shared: bool) -> Iterator[Parameter]:
    """The feed-forward part of a Qwen layer: experts, or a dense one where the config says so."""
    experts = facts.count("num_experts", facts.maybe("num_local_experts"))
    step = facts.count("decoder_sparse_step", 1) or 1
    if not experts or layer in facts.numbers("mlp_only_layers") or (layer + 1) % step:
        yield from _gated(facts, "mlp", facts.count("intermediate_size"))
        return
    yield from _linear("mlp.gate", experts, facts.hidden)
    for expert in range(experts):
        yield from _gated(facts, f"mlp.experts.{expert}", facts.count("moe_intermediate_size"))
    if shared:
        yield from _gated(facts, "mlp.shared_expert", facts.count("shared_expert_intermediate_size"))
        yield from _linear("mlp.shared_expert_gate", 1, facts.hidden)


def _qwen2_moe(facts: Facts, layer: int) -> Iterator[Parameter]:
    yield from _norms(facts)
    yield from _attention(facts, bias=facts.flag("qkv_bias", default=True), output_bias=False)
    yield from _experts(facts, layer, shared=True)


def _qwen3_moe(facts: Facts, layer: int) -> Iterator[Parameter]:
    yield from _norms(facts)
    bias = facts.flag("attention_bias")
    yield from _attention(facts, bias=bias, output_bias=bias, head_norms=True)
    yield from _experts(facts, layer, shared=False)


def _conv1d(name: str, inputs: int, outputs: int) -> Iterator[Parameter]:
    """GPT-2's linear layer, stored as inputs × outputs."""
    yield Parameter(name=f"{name}.weight", shape=(inputs, outputs))
    yield Parameter(name=f"{name}.bias", shape=(outputs,))


def _gpt2_outer(facts: Facts) -> Iterator[Parameter]:
    yield Parameter(name="wte.weight", shape=(None, facts.hidden))
    yield Parameter(name="wpe.weight", shape=(facts.count("n_positions"), facts.hidden))
    yield from _norm("ln_f", facts.hidden, bias=True)


def _gpt2(facts: Facts, _: int) -> Iterator[Parameter]:
    hidden = facts.hidden
    inner = facts.count("n_inner", 4 * hidden)
    yield from _norm("ln_1", hidden, bias=True)
    yield from _conv1d("attn.c_attn", hidden, 3 * hidden)
    yield from _conv1d("attn.c_proj", hidden, hidden)
    yield from _norm("ln_2", hidden, bias=True)
    yield from _conv1d("mlp.c_fc", hidden, inner)
    yield from _conv1d("mlp.c_proj", inner, hidden)
    for name in ("attn.bias", "attn.masked_bias"):
        yield Parameter(name=name, shape=None, optional=True)


def _bert_outer(facts: Facts) -> Iterator[Parameter]:
    hidden = facts.hidden
    yield Parameter(name="embeddings.word_embeddings.weight", shape=(None, hidden))
    yield Parameter(
        name="embeddings.position_embeddings.weight", shape=(facts.count("max_position_embeddings"), hidden)
    )
    yield Parameter(name="embeddings.token_type_embeddings.weight", shape=(facts.count("type_vocab_size"), hidden))
    yield from _norm("embeddings.LayerNorm", hidden, bias=True)
    yield Parameter(name="embeddings.position_ids", shape=None, optional=True)
    yield Parameter(name="pooler.dense.weight", shape=(hidden, hidden), optional=True)
    yield Parameter(name="pooler.dense.bias", shape=(hidden,), optional=True)


def _bert(facts: Facts, _: int) -> Iterator[Parameter]:
    hidden, inner = facts.hidden, facts.count("intermediate_size")
    for name in ("query", "key", "value"):
        yield from _linear(f"attention.self.{name}", hidden, hidden, bias=True)
    yield from _linear("attention.output.dense", hidden, hidden, bias=True)
    yield from _norm("attention.output.LayerNorm", hidden, bias=True)
    yield from _linear("intermediate.dense", inner, hidden, bias=True)
    yield from _linear("output.dense", hidden, inner, bias=True)
    yield from _norm("output.LayerNorm", hidden, bias=True)


_decoder = partial(Family, base="model.", layer="layers.", outer=_decoder_outer)

FAMILIES: Mapping[str, Family] = {
    "Llama": _decoder(block=_llama, tied=False),
    "Granite": _decoder(block=_llama, tied=False),
    "SmolLM3": _decoder(block=_llama, tied=True),
    "Mistral": _decoder(block=_mistral, tied=False),
    "Mixtral": _decoder(block=_mixtral, tied=False),
    "Qwen2": _decoder(block=_qwen2, tied=False),
    "Qwen3": _decoder(block=_qwen3, tied=False),
    "Qwen2Moe": _decoder(block=_qwen2_moe, tied=False),
    "Qwen3Moe": _decoder(block=_qwen3_moe, tied=False),
    "Phi3": _decoder(block=_phi3, tied=False),
    "Gemma": _decoder(block=_gemma, tied=True, centred_norms=True),
    "Gemma2": _decoder(block=_gemma2, tied=True, centred_norms=True),
    "Gemma3": _decoder(block=_gemma3, tied=True, centred_norms=True),
    "GPT2": Family(base="transformer.", layer="h.", outer=_gpt2_outer, block=_gpt2, tied=True),
    "Bert": Family(base="bert.", layer="encoder.layer.", outer=_bert_outer, block=_bert, tied=True),
    "Roberta": Family(base="roberta.", layer="encoder.layer.", outer=_bert_outer, block=_bert, tied=True),
    "XLMRoberta": Family(base="roberta.", layer="encoder.layer.", outer=_bert_outer, block=_bert, tied=True),
}
"""By the part of the class name before `Model`, `ForCausalLM` and the like."""
