"""Tensor names and shapes against config.json, packed or not; LoRA pairs; the families as transformers makes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelctl.errors import InputError
from modelctl.model.adapter import check_adapters
from modelctl.model.architecture import MAX_PROBLEMS, Comparison, compare_architecture
from modelctl.model.config import parse_config, read_config
from modelctl.model.families import FAMILIES
from modelctl.model.packing import packing_of
from modelctl.model.safetensors import Header, TensorInfo, read_header
from modelctl.model.strict_json import Json
from modelctl.model.tree import scan_tree
from tests.support.models import Tensor, write_json, write_safetensors

Shapes = dict[str, tuple[int, ...]]
LLAMA: dict[str, Json] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
    "vocab_size": 10,
}


def llama(layers: int = 2, base: str = "model.") -> Shapes:
    found: Shapes = {f"{base}embed_tokens.weight": (10, 8), f"{base}norm.weight": (8,)}
    if base:
        found["lm_head.weight"] = (10, 8)
    for number in range(layers):
        place = f"{base}layers.{number}."
        found |= {f"{place}{name}.weight": (8,) for name in ("input_layernorm", "post_attention_layernorm")}
        found |= {f"{place}self_attn.{name}_proj.weight": (8, 8) for name in "qo"}
        found |= {f"{place}self_attn.{name}_proj.weight": (4, 8) for name in "kv"}
        found |= {f"{place}mlp.{name}_proj.weight": (12, 8) for name in ("gate", "up")}
        found[f"{place}mlp.down_proj.weight"] = (8, 12)
    return found


def header(shapes: Shapes, dtype: str = "BF16") -> Header:
    tensors = tuple(TensorInfo(name=name, dtype=dtype, shape=shape, begin=0, end=0) for name, shape in shapes.items())
    return Header(tensors=tensors, metadata={}, data_start=0, problems=())


def compare(shapes: Shapes, **config: Json) -> Comparison:
    return compare_architecture(parse_config({**LLAMA, **config}), {"model.safetensors": header(shapes)})


def kinds(comparison: Comparison) -> list[str]:
    return [problem.kind for problem in comparison.problems]


def test_a_whole_model_and_its_parameters() -> None:
    found = compare(llama())
    assert (found.problems, found.warnings) == ((), ())
    assert found.parameters == sum(a * b[0] if b else a for a, *b in llama().values())


def test_a_bare_model_has_no_head_and_no_prefix() -> None:
    assert kinds(compare(llama(base=""), architectures=["LlamaModel"])) == []
    assert kinds(compare(llama(base=""), architectures=["LlamaForCausalLM"])) == []


@pytest.mark.parametrize(
    ("config", "rules"),
    [
        ({"num_key_value_heads": 4}, ["tensor-shape"] * 4),
        ({"head_dim": 4}, ["tensor-shape"] * 8),
        ({"intermediate_size": 13}, ["tensor-shape"] * 6),
        ({"attention_bias": True}, ["tensor-missing"] * 8),
        ({"num_hidden_layers": 1}, ["tensor-extra"]),
        ({"tie_word_embeddings": True}, []),
        ({"architectures": ["Qwen3ForCausalLM"], "head_dim": 2}, ["tensor-missing"] * 4),
        ({"architectures": ["Qwen2ForCausalLM"]}, ["tensor-missing"] * 6),
    ],
)
def test_every_number_of_the_config_is_in_the_shapes(config: dict[str, Json], rules: list[str]) -> None:
    assert kinds(compare(llama(), **config)) == rules


def test_a_missing_head_is_found_where_it_is_not_the_embedding() -> None:
    shapes = llama()
    del shapes["lm_head.weight"]
    found = compare(shapes)
    assert kinds(found) == ["tensor-missing"]
    assert "lm_head.weight" in found.problems[0].detail
    assert kinds(compare(shapes, tie_word_embeddings=True)) == []


def test_old_buffers_are_no_extras_and_foreign_tensors_are() -> None:
    assert kinds(compare(llama() | {"model.layers.0.self_attn.rotary_emb.inv_freq": (1,)})) == []
    assert kinds(compare(llama() | {"model.layers.0.spy.weight": (1,)})) == ["tensor-extra"]
    assert kinds(compare(llama() | {"spy.weight": (1,)})) == ["tensor-extra"]
    classifier = {"score.weight": (3, 8)}
    shapes = {name: shape for name, shape in llama().items() if name != "lm_head.weight"} | classifier
    assert kinds(compare(shapes, architectures=["LlamaForSequenceClassification"])) == []


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["DeepseekV3ForCausalLM"]},
        {"architectures": []},
        {"auto_map": {"AutoModel": "modeling.Own"}},
        {"text_config": {"hidden_size": 8}},
        {"hidden_size": None},
        {"intermediate_size": None},
    ],
)
def test_what_can_not_be_compared_is_said(config: dict[str, Json]) -> None:
    found = compare(llama(), **config)
    assert (found.problems, found.family, found.parameters) == ((), None, None)
    assert "names and shapes were not compared" in found.warnings[0]


@pytest.mark.parametrize("value", ["12", -1, 1.5, True, [1]])
def test_a_value_of_the_wrong_type_is_an_error(value: Json) -> None:
    with pytest.raises(InputError, match="intermediate_size"):
        compare(llama(), intermediate_size=value)


@pytest.mark.parametrize(
    "config",
    [
        {"num_hidden_layers": 10**15},
        {"architectures": ["MixtralForCausalLM"], "num_local_experts": 10**15},
        {"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 10**15, "moe_intermediate_size": 10**18},
        {"hidden_size": 10**30},
    ],
)
def test_a_config_that_claims_the_world_costs_nothing(config: dict[str, Json]) -> None:
    begin = time.perf_counter()
    found = compare(llama(), **config)
    assert len(found.problems) <= MAX_PROBLEMS
    assert time.perf_counter() - begin < 15


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 5), st.integers(), st.floats(allow_nan=False), st.text(max_size=3),
    st.lists(st.integers(0, 3), max_size=2),
)  # fmt: skip
KEYS = [
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
    "num_experts", "num_local_experts", "decoder_sparse_step", "mlp_only_layers", "n_inner", "n_positions",
    "tie_word_embeddings", "attention_bias", "vocab_size", "type_vocab_size", "moe_intermediate_size",
]  # fmt: skip


@pytest.mark.slow
@given(
    family=st.sampled_from(sorted(FAMILIES)),
    head=st.sampled_from(["Model", "ForCausalLM", "ForMaskedLM", "LMHeadModel"]),
    config=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5),
    quantization=st.none()
    | st.dictionaries(st.sampled_from(["quant_method", "bits", "group_size", "dynamic"]), VALUES),
    names=st.dictionaries(st.sampled_from(sorted(llama())), st.lists(st.integers(0, 9), max_size=3).map(tuple)),
)
@settings(max_examples=150, deadline=None)
def test_no_config_and_no_tensors_bring_it_down(
    family: str, head: str, config: dict[str, Json], quantization: dict[str, Json] | None, names: Shapes
) -> None:
    raw: dict[str, Json] = {**LLAMA, "architectures": [family + head], **config, "quantization_config": quantization}
    try:
        found = compare_architecture(parse_config(raw), {"model.safetensors": header(names)})
    except InputError:
        return
    assert not names or found.problems or found.warnings


def test_files_that_engines_do_not_load_are_left_out() -> None:
    headers = {
        "model.safetensors": header(llama()),
        "consolidated.safetensors": header({"tok_embeddings.weight": (10, 8)}),
        "adapter_model.safetensors": header({"x.lora_A.weight": (1, 1)}),
        "original/model.safetensors": header({"y": (1,)}),
    }
    assert compare_architecture(parse_config(LLAMA), headers).problems == ()


# Packed weights.


def packed(**parts: tuple[int, ...]) -> Shapes:
    shapes = llama()
    del shapes["model.layers.0.mlp.up_proj.weight"]
    return shapes | {f"model.layers.0.mlp.up_proj.{part}": shape for part, shape in parts.items()}


GPTQ: dict[str, Json] = {"quant_method": "gptq", "bits": 4, "group_size": 4}


def test_gptq_packs_inputs_and_awq_outputs() -> None:
    gptq = packed(qweight=(1, 12), qzeros=(2, 2), scales=(2, 12), g_idx=(8,), bias=(12,))
    found = compare(gptq, quantization_config=GPTQ)
    assert (kinds(found), found.parameters) == ([], compare(llama()).parameters)
    awq = packed(qweight=(8, 2), qzeros=(2, 2), scales=(2, 12))
    assert kinds(compare(awq, quantization_config={**GPTQ, "quant_method": "awq", "version": "gemm"})) == []
    assert kinds(compare(gptq, quantization_config={**GPTQ, "group_size": -1})) == ["tensor-shape"] * 2
    assert kinds(compare(gptq, quantization_config={**GPTQ, "bits": 8})) == ["tensor-shape"] * 2


def test_a_part_of_a_packed_weight_that_is_missing() -> None:
    found = compare(packed(qweight=(1, 12), qzeros=(2, 2)), quantization_config=GPTQ)
    assert kinds(found) == ["tensor-missing"]
    assert "scales" in found.problems[0].detail


def test_an_unknown_packing_is_a_warning() -> None:
    for shapes in (packed(weight_packed=(12, 1), weight_scale=(12, 2), weight_shape=(2,)), packed(qweight=(3, 3))):
        found = compare(shapes, quantization_config={"quant_method": "compressed-tensors"})
        assert (found.problems, found.parameters) == ((), None)
        assert "packing 'compressed-tensors' is not known" in found.warnings[0]


@pytest.mark.parametrize(
    "config", [{"bits": "4"}, {"bits": 5}, {"bits": True}, {"group_size": 0}, {"group_size": None}, {"quant_method": 3}]
)
def test_a_hostile_packing_is_not_known(config: dict[str, Json]) -> None:
    assert packing_of({**GPTQ, **config}) is None


# Adapters.


def adapter(folder: Path, shapes: Iterable[tuple[str, tuple[int, ...]]], **config: Json) -> list[str]:
    folder.mkdir(exist_ok=True)
    write_json(folder / "adapter_config.json", {"peft_type": "LORA", "r": 2, "target_modules": ["q_proj"], **config})
    tensors: dict[str, Tensor] = {}
    for name, shape in shapes:
        size = 1
        for length in shape:
            size *= length
        tensors[name] = ("U8", shape, b"\1" * size)
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    headers = {"adapter_model.safetensors": read_header(folder / "adapter_model.safetensors")}
    return [problem.kind for problem in check_adapters(scan_tree(folder), headers)]


Q = "base_model.model.model.layers.0.self_attn.q_proj"
A, B = (f"{Q}.lora_A.weight", (2, 8)), (f"{Q}.lora_B.weight", (8, 2))


@pytest.mark.parametrize(
    ("shapes", "config", "rules"),
    [
        ([A, B], {}, []),
        ([A, B, (f"{Q}.lora_magnitude_vector", (8,))], {}, []),
        ([A, B], {"r": 4}, ["tensor-shape"]),
        ([A, B], {"r": 4, "rank_pattern": {"(a+)+$": 2}}, []),
        ([A], {}, ["tensor-missing"]),
        ([A, (f"{Q}.lora_B.weight", (8, 3))], {}, ["tensor-shape"]),
        ([A, (f"{Q}.lora_B.weight", (8,))], {}, ["tensor-shape"]),
        ([A, B], {"target_modules": ["v_proj"]}, ["tensor-extra"]),
        ([A, B], {"target_modules": "(a+)+$"}, []),
        ([A, B, ("spy.weight", (1,))], {}, ["tensor-extra"]),
        ([], {}, ["tensor-missing"]),
        ([("m.embed_tokens.lora_embedding_A", (2, 9)), ("m.embed_tokens.lora_embedding_B", (8, 2))],
         {"target_modules": ["embed_tokens"]}, []),
    ],
)  # fmt: skip
def test_the_pairs_of_an_adapter(
    tmp_path: Path, shapes: list[tuple[str, tuple[int, ...]]], config: dict[str, Json], rules: list[str]
) -> None:
    assert adapter(tmp_path / "adapter", shapes, **config) == rules


def test_an_adapter_config_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{")
    assert [problem.kind for problem in check_adapters(scan_tree(tmp_path), {})] == ["config"]


# The families as transformers makes them.

_MAKE = """
import json, sys
from pathlib import Path
import torch, transformers
sizes = dict(vocab_size=96, num_hidden_layers=3, hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=48, max_position_embeddings=64, pad_token_id=0, num_experts=4, num_local_experts=4,
             moe_intermediate_size=16, shared_expert_intermediate_size=24, mlp_only_layers=[1])
gpt2 = dict(vocab_size=96, n_embd=32, n_layer=3, n_head=4, n_positions=64)
bert = {key: sizes[key] for key in list(sizes)[:4] + ["intermediate_size", "max_position_embeddings"]}
counts = {}
for name in json.loads(sys.argv[2]):
    model = getattr(transformers, name)
    values = gpt2 if name.startswith("GPT2") else bert if "ert" in name else sizes
    made = model(model.config_class(**values)).to(torch.bfloat16)
    made.save_pretrained(Path(sys.argv[1], name))
    counts[name] = sum(weight.numel() for weight in made.parameters())
print(json.dumps(counts))
"""


@pytest.mark.slow
def test_the_families_are_those_of_transformers(tmp_path: Path) -> None:
    decoders = [name for name in FAMILIES if "ert" not in name and name != "GPT2"]
    names = [f"{name}ForCausalLM" for name in decoders] + ["GPT2LMHeadModel", "GPT2Model", "LlamaModel"]
    names += ["LlamaForSequenceClassification", "BertModel", "BertForMaskedLM", "RobertaForMaskedLM"]
    names += ["XLMRobertaModel", "XLMRobertaForSequenceClassification"]
    done = subprocess.run(
        [sys.executable, "-I", "-c", _MAKE, tmp_path, json.dumps(names)],
        capture_output=True, text=True, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    for name in names:
        folder = tmp_path / name
        headers = {path.name: read_header(path) for path in folder.glob("*.safetensors")}
        found = compare_architecture(read_config(folder / "config.json"), headers)
        assert (name, found.problems, found.warnings) == (name, (), ())
        assert (name, found.parameters) == (name, counts[name])
