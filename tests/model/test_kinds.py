"""Every kind of repository is named with its evidence, and hostile files make a kind unknown, never an error."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelctl.errors import InputError
from modelctl.model.config import load_config, parse_config
from modelctl.model.kinds import MAX_ADAPTERS, Kind, kinds_of, recognise
from modelctl.model.tree import Tree, scan_tree
from tests.support.models import tiny_llama, write_json

LORA = {"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 8, "target_modules": ["q_proj"]}
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


def kinds(folder: Path, files: Mapping[str, object]) -> tuple[Kind, ...]:
    """Write files (JSON for values that are no bytes) and say what they are."""
    for name, value in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(value, bytes):
            (folder / name).write_bytes(value)
        else:
            write_json(folder / name, value)
    return recognise(scan_tree(folder))


def names(found: tuple[Kind, ...]) -> list[str]:
    return [kind.name for kind in found]


@pytest.mark.parametrize(
    ("config", "name", "because"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, "causal-lm", "LlamaForCausalLM"),
        ({"architectures": ["GPT2LMHeadModel"]}, "causal-lm", "GPT2LMHeadModel"),
        ({"architectures": ["ChatGLMModel"]}, "causal-lm", "ChatGLMModel"),
        ({"architectures": ["GraniteMoeHybridForCausalLM"], "num_local_experts": 0}, "causal-lm", "Granite"),
        ({"architectures": ["Qwen3ForCausalLM"], "num_experts": 1, "image_token_id": 9}, "causal-lm", "Qwen3"),
        (
            {"architectures": ["MixtralForCausalLM"], "num_local_experts": 8},
            "mixture-of-experts",
            "8 experts (num_local_experts)",
        ),
        (
            {"architectures": ["DeepseekV3ForCausalLM"], "n_routed_experts": 256},
            "mixture-of-experts",
            "256 experts (n_routed_experts)",
        ),
        (
            {"architectures": ["DbrxForCausalLM"], "ffn_config": {"moe_num_experts": 16}},
            "mixture-of-experts",
            "16 experts",
        ),
        (
            {"architectures": ["NemotronHForCausalLM"], "block_configs": [7, {}, {"n_routed_experts": 4}]},
            "mixture-of-experts",
            "4 experts",
        ),
        ({"architectures": ["HunYuanMoEV1ForCausalLM"], "num_experts": [64, 64]}, "mixture-of-experts", "64 experts"),
        ({"architectures": ["BertModel"]}, "embedding", "no language-model head"),
        ({"architectures": ["XLMRobertaModel"]}, "embedding", "no language-model head"),
        ({"architectures": ["MistralModel"]}, "embedding", "no language-model head"),
        (
            {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "vision_config": {"depth": 32}},
            "vision-language",
            "with vision_config",
        ),
        (
            {"architectures": ["LlavaForConditionalGeneration"], "image_token_index": 32000},
            "vision-language",
            "with image_token_index",
        ),
        (
            {"architectures": ["InternVLChatModel"], "vision_config": {"a": 1}, "llm_config": {"vocab_size": 9}},
            "vision-language",
            "InternVLChatModel",
        ),
        (
            {
                "architectures": ["Llama4ForConditionalGeneration"],
                "vision_config": {"a": 1},
                "text_config": {"num_local_experts": 16},
            },
            "vision-language",
            "16 experts",
        ),
        ({"architectures": ["T5ForConditionalGeneration"]}, "unknown", "an encoder and a decoder"),
        ({"architectures": ["BertForSequenceClassification"]}, "unknown", "not one of the kinds"),
        ({"architectures": ["EagleLlamaForCausalLM"]}, "unknown", "drafts for another model"),
        ({"architectures": ["DeepSeekMTPModel"]}, "unknown", "drafts for another model"),
        ({"architectures": ["Qwen2ForRewardModel"]}, "unknown", "not one of the kinds"),
        ({"architectures": ["UltravoxModel"]}, "unknown", "not one of the kinds"),
        ({"model_type": "llama"}, "unknown", "names no architecture"),
        ({"architectures": "LlamaForCausalLM"}, "unknown", "can't be read"),
        ({"architectures": ["\x1b[31mX"]}, "unknown", "\\x1b[31mX"),
    ],
)
def test_a_config_names_one_kind(tmp_path: Path, config: object, name: str, because: str) -> None:
    (kind,) = kinds(tmp_path, {"config.json": config})
    assert kind.name == name
    assert because in kind.because
    assert kind.because.isprintable()


def test_a_loadable_model_is_dense(tmp_path: Path) -> None:
    tree = scan_tree(tiny_llama(tmp_path / "model"))
    assert names(kinds_of(tree, load_config(tree))) == ["causal-lm"]


def test_modules_json_wins_over_an_architecture_that_could_generate(tmp_path: Path) -> None:
    (kind,) = kinds(tmp_path, {"config.json": {"architectures": ["Qwen3ForCausalLM"]}, "modules.json": MODULES})
    assert kind.name == "embedding"
    assert kind.because == "modules.json: sentence-transformers with Transformer, Pooling"


@pytest.mark.parametrize("modules", [b"[", b"{}", b"7", [], [7, {"type": "os.system"}], [{"type": None}]])
def test_a_modules_json_that_says_nothing_changes_nothing(tmp_path: Path, modules: object) -> None:
    found = kinds(tmp_path, {"config.json": {"architectures": ["LlamaForCausalLM"]}, "modules.json": modules})
    assert names(found) == ["causal-lm"]


def test_an_adapter_names_its_base(tmp_path: Path) -> None:
    (kind,) = kinds(tmp_path, {"adapter_config.json": LORA, "adapter_model.safetensors": b"x"})
    assert (kind.name, kind.base) == ("lora-adapter", "org/base")
    assert kind.because == "adapter_config.json: LoRA over org/base with adapter_model.safetensors"


def test_an_adapter_without_weights_or_base_says_so(tmp_path: Path) -> None:
    (kind,) = kinds(tmp_path, {"adapter_config.json": {"peft_type": "LORA", "base_model_name_or_path": None}})
    assert (kind.name, kind.base) == ("lora-adapter", None)
    assert "names no base" in kind.because
    assert "without adapter_model.safetensors" in kind.because


@pytest.mark.parametrize(
    ("adapter", "because"),
    [
        ({"peft_type": "IA3"}, "an adapter of type 'IA3'"),
        ({}, "an adapter of type None"),
        (b"{", "not JSON"),
        ([], "object"),
    ],
)
def test_another_adapter_is_unknown(tmp_path: Path, adapter: object, because: str) -> None:
    (kind,) = kinds(tmp_path, {"adapter_config.json": adapter})
    assert kind.name == "unknown"
    assert because in kind.because


def test_gguf_is_known_by_name_and_content(tmp_path: Path) -> None:
    (kind,) = kinds(tmp_path, {"a.gguf": b"GGUF....", "b.gguf": b"<html>"})
    assert kind.name == "gguf"
    assert kind.because.endswith(": a.gguf")


def test_several_kinds_in_one_repository(tmp_path: Path) -> None:
    found = kinds(
        tmp_path,
        {
            "config.json": {"architectures": ["Phi4MMForCausalLM"], "img_processor": {"name": "siglip"}},
            "vision-lora/adapter_config.json": LORA,
            "vision-lora/adapter_model.safetensors": b"x",
            "speech-lora/adapter_config.json": LORA,
            "model-q4.GGUF": b"GGUF",
        },
    )
    assert names(found) == ["vision-language", "lora-adapter", "lora-adapter", "gguf"]


def test_neither_config_nor_adapter_nor_gguf(tmp_path: Path) -> None:
    (kind,) = kinds(tmp_path, {"README.md": b"hello"})
    assert kind.name == "unknown"
    assert "no config.json" in kind.because


def test_more_adapters_than_anyone_needs(tmp_path: Path) -> None:
    found = kinds(tmp_path, {f"{n}/adapter_config.json": LORA for n in range(MAX_ADAPTERS + 3)})
    assert names(found) == ["unknown"] + ["lora-adapter"] * MAX_ADAPTERS


def test_a_file_that_is_gone_by_now_is_no_error(tmp_path: Path) -> None:
    write_json(tmp_path / "modules.json", MODULES)
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    tree = scan_tree(tmp_path)
    (tmp_path / "modules.json").unlink()
    (tmp_path / "a.gguf").unlink()
    assert names(kinds_of(tree, None)) == ["unknown"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["architectures", "num_experts", "vision_config", "text_config", "ffn_config", "block_configs", "peft_type",
     "base_model_name_or_path", "type", "image_token_id"]
)  # fmt: skip
OBJECTS = st.dictionaries(KEYS, JSON | st.lists(st.sampled_from(["LlamaForCausalLM", "BertModel"])), max_size=5)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(config=OBJECTS, adapter=OBJECTS | JSON, modules=st.lists(OBJECTS, max_size=3) | JSON)
def test_any_json_has_at_least_one_kind(tmp_path: Path, config: object, adapter: object, modules: object) -> None:
    for name, value in (("config.json", config), ("adapter_config.json", adapter), ("modules.json", modules)):
        (tmp_path / name).write_text(json.dumps(value), encoding="utf-8")
    tree = scan_tree(tmp_path)
    found = recognise(tree)
    assert found
    assert all(kind.because.isprintable() for kind in found)


@given(config=OBJECTS)
@settings(max_examples=60, deadline=None)
def test_a_parsed_config_is_enough(config: dict[str, object]) -> None:
    try:
        parsed = parse_config(json.loads(json.dumps(config)))
    except InputError:
        return
    assert kinds_of(Tree(root=Path("/nowhere"), files=()), parsed)


REGISTRY = "vllm/model_executor/models/registry.py"


def engine_architectures(table: str) -> set[str]:
    """The names in one table of the installed engine's registry of models, read and not run."""
    (path,) = (Path(__file__).parents[2] / ".venv-engine").glob(f"lib/python*/site-packages/{REGISTRY}")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            (target,) = node.targets
            if isinstance(target, ast.Name) and target.id == table:
                return {str(key.value) for key in node.value.keys if isinstance(key, ast.Constant)}
    raise AssertionError(f"{path}: no {table}")


def named_as(architectures: set[str], **config: object) -> dict[str, set[str]]:
    """Kind → the architectures that alone give it."""
    found: dict[str, set[str]] = {}
    for name in sorted(architectures):
        parsed = parse_config(json.loads(json.dumps({"architectures": [name], **config})))
        (kind,) = kinds_of(Tree(root=Path("/nowhere"), files=()), parsed)
        found.setdefault(kind.name, set()).add(name)
    return found


@pytest.mark.engine
def test_the_engine_and_the_names_agree_on_what_writes_text() -> None:
    texts = named_as(engine_architectures("_TEXT_GENERATION_MODELS"))
    assert set(texts) <= {"causal-lm", "unknown"}
    assert len(texts["causal-lm"]) >= 100
    assert all(name.endswith("ForConditionalGeneration") for name in texts.get("unknown", set()))


@pytest.mark.engine
def test_the_engine_and_the_names_agree_on_what_sees_and_writes() -> None:
    seeing = named_as(engine_architectures("_MULTIMODAL_MODELS"), vision_config={"depth": 1})
    assert set(seeing) <= {"vision-language", "unknown"}
    assert len(seeing["vision-language"]) > 10 * len(seeing.get("unknown", set()))


@pytest.mark.engine
def test_no_architecture_that_only_the_engine_pools_is_taken_for_one_that_writes() -> None:
    writing = engine_architectures("_TEXT_GENERATION_MODELS") | engine_architectures("_MULTIMODAL_MODELS")
    tables = ("_EMBEDDING_MODELS", "_REWARD_MODELS", "_TOKEN_CLASSIFICATION_MODELS", "_SEQUENCE_CLASSIFICATION_MODELS")
    for table in (*tables, "_SPECULATIVE_DECODING_MODELS"):
        assert set(named_as(engine_architectures(table) - writing)) <= {"embedding", "unknown"}, table
